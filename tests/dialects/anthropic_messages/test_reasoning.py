import json

from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.anthropic_messages.reasoning import KeptReasoning, restore, restored_parts
from proxy.dialects.kept import MOST_BYTES, is_sealed, restorations

DIALECT = dialect_for("/v1/messages")
FIRST = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SECOND = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
TEXT = {"type": "text", "text": "so"}
USE = {"type": "tool_use", "id": "u1", "name": "look", "input": {}}


def observed(raw, *, stream):
    reader = DIALECT.reader(stream=stream, keep_reasoning=True)
    reader.feed(raw)
    return reader.finish(complete=True).replies[0].reasoning


def a_message(*blocks):
    return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": "tool_use"}


def streamed(*blocks):
    events = [{"type": "message_start", "message": a_message()}]
    for index, block in enumerate(blocks):
        opening = {**block, **({"thinking": "", "signature": ""} if block["type"] == "thinking" else {})}
        events.append({"type": "content_block_start", "index": index, "content_block": opening})
        if block["type"] == "thinking":
            for piece in block["thinking"]:
                delta = {"type": "thinking_delta", "thinking": piece}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
            delta = {"type": "signature_delta", "signature": block["signature"]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_stop"})
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def test_interleaved_blocks_come_back_exactly_where_they_stood():
    blocks = [FIRST, USE, TEXT, SECOND, {**USE, "id": "u2"}]
    kept = observed(json.dumps(a_message(*blocks)).encode(), stream=False)
    ((position, payload),) = restorations(kept)
    without = {"role": "assistant", "content": [USE, TEXT, {**USE, "id": "u2"}]}

    restored = json.loads(restore(json.dumps(without).encode(), payload))

    assert position == 0
    assert restored["content"] == blocks
    assert [list(block) for block in restored["content"]] == [list(block) for block in blocks]


def test_whole_and_streamed_answers_keep_the_same():
    blocks = [FIRST, TEXT, SECOND, USE]

    whole = observed(json.dumps(a_message(*blocks)).encode(), stream=False)

    assert observed(streamed(*blocks), stream=True) == whole
    assert is_sealed(whole)


def test_other_blocks_keep_their_bytes():
    message = b'{"role":"assistant","content":[ {"type":"text" , "text":"caf\\u00e9"} ]}'

    restored = restore(message, json.dumps([[0, FIRST]]))

    assert b'{"type":"text" , "text":"caf\\u00e9"}' in restored
    assert json.loads(restored)["content"][0] == FIRST


def test_a_text_becomes_a_block_behind_its_thinking():
    restored = json.loads(restore(b'{"role":"assistant","content":"so"}', json.dumps([[0, FIRST]])))

    assert restored["content"] == [FIRST, TEXT]


def test_a_message_with_thinking_of_its_own_stays():
    message = json.dumps({"role": "assistant", "content": [SECOND, TEXT]}).encode()

    assert restore(message, json.dumps([[0, FIRST]])) is message


def test_restoring_twice_is_restoring_once():
    payload = json.dumps([[0, FIRST]])
    once = restore(b'{"role":"assistant","content":[]}', payload)

    assert restore(once, payload) is once


def test_an_answer_without_thinking_keeps_nothing():
    assert observed(json.dumps(a_message(TEXT)).encode(), stream=False) == ""


def test_odd_pieces_are_left_out_and_never_break_the_reader():
    kept = KeptReasoning()
    for index in ([0], {}, None, "0"):
        kept.block(index, FIRST)
        kept.delta(index, {"type": "thinking_delta", "thinking": "x"})

    assert kept.packed() == ""


def test_too_much_thinking_is_not_kept_in_parts():
    kept = KeptReasoning()
    kept.block(0, FIRST)
    kept.delta(0, {"type": "thinking_delta", "thinking": "x" * MOST_BYTES})

    assert kept.packed() == ""


def test_what_comes_back_is_counted_as_reasoning():
    (first, second) = restored_parts(json.dumps([[0, FIRST], [3, SECOND]]))

    assert (first.text, first.signed) == ("hm", True)
    assert second.signed


def test_the_drop_option_needs_a_thinking_object():
    for thinking, offered in (({"type": "adaptive"}, True), ({"type": "disabled"}, False), (None, False)):
        body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
        body |= {"thinking": thinking} if thinking else {}
        view = DIALECT.view("/v1/messages", {}, json.dumps(body).encode(), Recall())

        assert (DIALECT.drop_option(view) is not None) is offered


def test_the_drop_option_stands_beside_the_clients_own_wishes():
    thinking = {"type": "enabled", "budget_tokens": 1024, "block_binding": {"other": 1}}
    body = json.dumps({"messages": [{"role": "user", "content": "x"}], "thinking": thinking}).encode()
    view = DIALECT.view("/v1/messages", {}, body, Recall())

    option = DIALECT.drop_option(view)

    (cut,) = option.splices
    assert json.loads(cut.text) == thinking | {"block_binding": {"other": 1, "prefix_mismatch_behavior": "drop_block"}}
    assert json.loads(body[cut.start : cut.end]) == thinking
    assert option.header == (b"anthropic-beta", b"thinking-binding-controls-2026-08-01")
