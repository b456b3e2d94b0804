import json

import pytest

from proxy.conversation.fingerprint import reply_print
from proxy.dialects.openai_responses import OpenAIResponses
from proxy.dialects.openai_responses.items import parse_item
from proxy.tokens.usage import Usage
from tests.dialects.recordings import cut, observe

USAGE = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "hi there", "annotations": []}],
}
CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}


def sse(*events, name=True) -> bytes:
    lines = [(f"event: {event['type']}\n" if name else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


def completed(status="completed", **fields):
    return {"type": f"response.{status}", "response": {"id": "resp_1", "status": status, "usage": USAGE, **fields}}


def read(body, *, stream=True, complete=True, **more):
    pieces = body if isinstance(body, list) else [body]
    return observe(OpenAIResponses(), pieces, stream=stream, complete=complete, **more)


def test_a_reply_is_recognised_when_the_client_sends_it_back():
    seen = read(sse(completed(output=[{"type": "reasoning", "summary": []}, MESSAGE, CALL])))
    sent_back = [parse_item(json.dumps(item).encode()) for item in (MESSAGE, CALL)]

    assert seen.replies[0].fingerprint == reply_print(sent_back)
    assert (seen.replies[0].calls, seen.tool_calls, seen.response_id) == (1, 1, "resp_1")
    assert seen.outcome == "ok"


def test_the_reply_is_the_same_from_deltas_from_the_last_event_and_from_a_whole_answer():
    deltas = [
        {"type": "response.output_text.delta", "delta": "hi "},
        {"type": "response.output_text.delta", "delta": "there"},
        {"type": "response.output_text.done", "text": "hi there"},
        {"type": "response.output_item.done", "item": MESSAGE},
        {"type": "response.output_item.done", "item": CALL},
    ]
    by_deltas = read(sse(*deltas, completed(output=[])), keep_text=True)
    by_end = read(sse(*deltas, completed(output=[MESSAGE, CALL])), keep_text=True)
    whole = json.dumps(completed(output=[MESSAGE, CALL])["response"]).encode()

    assert by_deltas == by_end == read(whole, stream=False, keep_text=True)
    assert by_end.text == "hi there"
    assert by_end.finish == "completed"


def test_a_refusal_is_content_and_no_text_to_go_on_with():
    refused = {**MESSAGE, "content": [{"type": "refusal", "refusal": "no"}]}
    by_deltas = read(sse({"type": "response.refusal.delta", "delta": "no"}, completed(output=[])), keep_text=True)
    by_end = read(sse(completed(output=[refused])), keep_text=True)

    assert (by_deltas.text, by_deltas.has_content) == (by_end.text, by_end.has_content) == ("", True)
    assert by_deltas.replies == by_end.replies


def test_item_ids_may_change_from_event_to_event():
    rotating = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "id": "a"}},
        {"type": "response.function_call_arguments.delta", "item_id": "b", "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": {**CALL, "id": "c"}},
    ]

    assert read(sse(*rotating, completed(output=[]))).tool_calls == 1


def test_the_type_may_stand_only_in_the_event_line():
    event = completed(output=[MESSAGE])
    kind = event.pop("type")
    body = f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()

    assert read(body).outcome == "ok"
    assert read(body).usage == Usage(input_tokens=10, output_tokens=2)


def test_the_type_may_stand_only_in_the_data_and_a_done_mark_may_follow():
    body = b": OPENROUTER PROCESSING\n\n" + sse(completed(output=[MESSAGE]), name=False) + b"data: [DONE]\n\n"

    assert read(body).outcome == "ok"


@pytest.mark.parametrize("name", ["response.done", "response.canceled"])
def test_the_last_event_may_have_another_name(name):
    seen = read(sse({**completed(output=[MESSAGE]), "type": name}))

    assert (seen.outcome, seen.usage.input_tokens, seen.finish) == ("ok", 10, "completed")


def test_a_last_event_of_250_kilobytes_is_read():
    text = {"type": "message", "content": [{"type": "output_text", "text": "y" * 250_000}]}
    usage = {
        "input_tokens": 900,
        "input_tokens_details": {"cached_tokens": 800},
        "output_tokens": 33,
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    body = sse(completed(output=[text], usage=usage)).replace(b"\n", b"\r\n")
    wanted = Usage(input_tokens=900, cache_read_tokens=800, output_tokens=33, reasoning_tokens=20)

    for pieces in ([body], cut(body, range(0, len(body), 16_384))):
        seen = read(pieces)

        assert (seen.usage, seen.outcome) == (wanted, "ok")


def test_an_answer_that_ends_early_is_truncated():
    started = sse({"type": "response.created", "response": {"id": "resp_1", "usage": None}})
    spoken = started + sse({"type": "response.output_text.delta", "delta": "hi"})

    assert not read(started).has_content
    assert (read(spoken).outcome, read(spoken).has_content) == ("truncated", True)
    assert read(sse(completed(output=[MESSAGE])), complete=False).outcome == "truncated"
    assert read(b'{"id": "resp_1", "usa', stream=False).outcome == "truncated"


@pytest.mark.parametrize(
    "kind", ["response.reasoning_summary_text.delta", "response.output_item.added", "response.refusal.delta"]
)
def test_anything_of_the_model_is_content(kind):
    assert read(sse({"type": kind, "delta": "x", "item": {"type": "reasoning"}})).has_content


def test_an_incomplete_answer_says_why():
    cut_off = completed("incomplete", incomplete_details={"reason": "max_output_tokens"}, output=[MESSAGE])
    filtered = completed("incomplete", incomplete_details={"reason": "content_filter"}, output=[])

    assert (read(sse(cut_off)).outcome, read(sse(cut_off)).finish) == ("ok", "max_output_tokens")
    assert read(sse(filtered)).outcome == "blocked"


@pytest.mark.parametrize(
    ("events", "kind", "code"),
    [
        ([{"type": "error", "code": "server_error", "message": "broken"}], "server_error", "server_error"),
        ([{"type": "error", "error": {"type": "overloaded", "code": "x", "message": "broken"}}], "overloaded", "x"),
        (
            [completed("failed", error={"code": "context_length_exceeded", "message": "broken"}, usage=None)],
            "context_length_exceeded",
            "context_length_exceeded",
        ),
        (
            [
                {"type": "error", "error": {"type": "quota", "code": "q", "message": "broken"}},
                completed("failed", error={"code": "q", "message": "broken"}),
            ],
            "quota",
            "q",
        ),
    ],
)
def test_an_error_inside_a_stream_is_an_error(events, kind, code):
    seen = read(sse(*events))

    assert (seen.outcome, seen.error_type, seen.error_code) == ("error", kind, code)
    assert json.loads(seen.error_text)["message"] == "broken"
    assert seen.replies == ()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "broken", "type": "invalid_request_error", "code": None}}, "invalid_request_error"),
        ({"code": "invalid-argument", "error": "broken"}, "invalid-argument"),
        ({"error": {"message": "broken", "code": 504}}, "504"),
        ({"status": "failed", "error": {"message": "broken"}}, "error"),
    ],
)
def test_an_error_as_a_whole_answer_is_an_error(body, kind):
    seen = read(json.dumps(body).encode(), stream=False)

    assert (seen.outcome, seen.error_type) == ("error", kind)
    assert json.loads(seen.error_text)["message"] == "broken"


def test_reasoning_that_the_provider_dropped_is_counted():
    dropped = [
        {"type": "reasoning_dropped", "reason": "prefix_mismatch", "id": "rs_1"},
        {"reason": "prefix_mismatch", "id": "rs_2"},
    ]

    assert read(sse(completed(output=[MESSAGE], input_transformations=dropped))).dropped_reasoning == 2
    assert read(sse(completed(output=[MESSAGE]))).dropped_reasoning == 0


def test_an_answer_of_a_compaction_alone_is_a_good_answer():
    item = {"type": "compaction", "encrypted_content": "gAAA"}
    seen = read(sse({"type": "response.output_item.done", "item": item}, completed(output=[])))

    assert (seen.outcome, seen.has_content, seen.server_edited) == ("ok", True, True)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"data: 5\n\n", b"data: {\n\n", b"<html>", b"data: [DONE]\n\n"),
        b'data: {"type":"response.completed","response":7}\n\n',
    ],
)
def test_nonsense_is_a_truncated_answer(body):
    assert read(body).outcome == "truncated"
    assert read(body, stream=False).outcome == "truncated"
