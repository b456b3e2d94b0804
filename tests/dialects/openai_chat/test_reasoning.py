import json

import pytest

from proxy.dialects import dialect_for
from proxy.dialects.kept import MOST_BYTES, is_sealed, restorations
from proxy.dialects.openai_chat.reasoning import KeptReasoning, restore, restored_parts

DIALECT = dialect_for("/v1/chat/completions")
EXTRA = {"google": {"thought_signature": "c2ln"}}


def a_call(**more):
    return {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}, **more}


def kept_of(*deltas):
    kept = KeptReasoning()
    for delta in deltas:
        kept.take(delta)
    return kept.packed()


def value(kept):
    ((position, payload),) = restorations(kept)
    assert position == 0
    return json.loads(payload)


def put_back(message, *deltas):
    return json.loads(restore(json.dumps(message).encode(), json.dumps(value(kept_of(*deltas)))))


def test_text_grows_over_deltas_under_its_own_name():
    kept = kept_of({"reasoning_content": "one "}, {"content": "x"}, {"reasoning_content": "two"}, {"reasoning": None})

    assert value(kept) == {"reasoning_content": "one two"}
    assert not is_sealed(kept)


def test_details_grow_by_index_and_keep_their_order_and_signature():
    kept = kept_of(
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a", "format": "f"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "b"}]},
        {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "", "signature": "s"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "d", "id": "i"}]},
    )

    assert value(kept) == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "ab", "format": "f", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "d", "id": "i"},
        ]
    }
    assert is_sealed(kept)


def test_googles_signatures_are_kept_by_call():
    kept = kept_of(
        {"tool_calls": [{"index": 0, "id": "a", "extra_content": EXTRA, "function": {"name": "x"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "y"}}]},
    )

    assert value(kept) == {"tool_calls": [EXTRA]}
    assert is_sealed(kept)


def test_an_answer_without_reasoning_keeps_nothing():
    assert kept_of({"content": "hello", "tool_calls": [a_call()], "reasoning_content": ""}) == ""


def test_odd_pieces_are_left_out_and_never_break_the_reader():
    odd = [{"index": [1], "type": {}, "text": 7}, "text", None]
    calls = [{"index": 10**9, "extra_content": EXTRA}, {"index": -1, "extra_content": EXTRA}, 7]

    kept = kept_of({"reasoning_content": 7, "reasoning_details": odd, "tool_calls": calls}, {"tool_calls": "x"})

    assert value(kept) == {"reasoning_details": [{"index": [1], "type": {}, "text": 7}]}


def test_an_answer_with_too_much_of_it_keeps_nothing():
    assert kept_of({"reasoning_content": "x" * MOST_BYTES}, {"reasoning_content": "y"}) == ""


def test_a_message_gets_what_it_lacks_and_keeps_every_other_byte():
    message = b'{ "role":"assistant", "content": "caf\\u00e9" , "tool_calls":[ ] }'

    restored = restore(message, '{"reasoning_content":"why"}')

    assert restored == message[:-1] + b',"reasoning_content":"why"}'


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_field_is_filled(empty):
    message = {"role": "assistant", "content": "x", "reasoning_content": empty}

    assert put_back(message, {"reasoning_content": "why"})["reasoning_content"] == "why"


def test_what_the_message_has_stays():
    message = {"role": "assistant", "content": "x", "reasoning_content": "mine"}

    assert put_back(message, {"reasoning_content": "why"}) == message


def test_signatures_go_to_the_calls_that_lack_them():
    message = {"role": "assistant", "tool_calls": [a_call(), a_call(extra_content={"own": 1}), a_call()]}
    deltas = [{"index": at, "extra_content": EXTRA} for at in (0, 1)]

    restored = put_back(message, {"tool_calls": deltas})

    assert [call.get("extra_content") for call in restored["tool_calls"]] == [EXTRA, {"own": 1}, None]
    assert put_back({"role": "assistant", "content": "no calls"}, {"tool_calls": deltas}).keys() == {"role", "content"}


def test_restoring_twice_is_restoring_once():
    payload = json.dumps({"reasoning": "why", "tool_calls": [EXTRA]})
    once = restore(json.dumps({"role": "assistant", "tool_calls": [a_call()]}).encode(), payload)

    assert restore(once, payload) == once


def test_signatures_have_no_length_and_the_same_text_counts_once():
    (part,) = restored_parts('{"reasoning_content":"why","reasoning":"why","tool_calls":[null]}')

    assert part.text == "why"
    assert restored_parts('{"tool_calls":[null]}') == ()


def test_whole_and_streamed_answers_keep_the_same():
    message = {"role": "assistant", "content": "hi", "reasoning_content": "because of it"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    deltas = [{"reasoning_content": "because "}, {"reasoning_content": "of it"}, {"content": "hi"}]
    events = b"".join(
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n" for delta in deltas
    )
    found = []
    for stream, raw in ((False, json.dumps(whole).encode()), (True, events + b"data: [DONE]\n\n")):
        reader = DIALECT.reader(stream=stream, keep_reasoning=True)
        reader.feed(raw)
        found.append(reader.finish(complete=True).replies[0])

    assert found[0] == found[1]
    assert value(found[0].reasoning) == {"reasoning_content": "because of it"}
    assert DIALECT.restored_parts(json.dumps(value(found[0].reasoning)))[0].text == "because of it"


def test_readers_keep_no_reasoning_unless_asked():
    reader = DIALECT.reader(stream=False)
    reader.feed(b'{"choices":[{"message":{"content":"hi","reasoning":"why"},"finish_reason":"stop"}]}')

    assert reader.finish(complete=True).replies[0].reasoning == ""
