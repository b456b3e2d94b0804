import json

import pytest

from proxy.conversation.fingerprint import reply_print
from proxy.dialects.gemini import Gemini
from proxy.dialects.gemini.contents import parse_content
from proxy.tokens.usage import NOT_REPORTED, Usage
from tests.dialects.recordings import cut, observe


def chunk(*parts, finish=None, index=0, **more):
    candidate = {"index": index, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate], **more}


def counts(prompt, said, **more):
    return {"promptTokenCount": prompt, "candidatesTokenCount": said, "totalTokenCount": prompt + said, **more}


def sse(*chunks) -> bytes:
    return "".join(f"data: {json.dumps(value)}\r\n\r\n" for value in chunks).encode()


def array(*chunks) -> bytes:
    return ("[" + "\n,\r\n".join(json.dumps(value, indent=2) for value in chunks) + "\n]").encode()


def read(body, *, stream=True, complete=True, **more):
    pieces = body if isinstance(body, list) else [body]
    return observe(Gemini(), pieces, stream=stream, complete=complete, **more)


FRAMES = pytest.mark.parametrize("frame", [sse, array])


@FRAMES
def test_the_last_counts_win_and_bare_events_change_nothing(frame):
    body = frame(
        chunk({"text": "a"}, usageMetadata=counts(9, 2)),
        chunk({"text": "b"}, usageMetadata=counts(9, 30)),
        chunk({"text": "c"}, usageMetadata=counts(9, 64)),
        chunk({"text": ""}, finish="STOP", usageMetadata={"trafficType": "ON_DEMAND"}),
    )
    seen = read(body, keep_text=True)

    assert (seen.usage, seen.outcome) == (Usage(input_tokens=9, output_tokens=64), "ok")
    assert (seen.text, seen.finish, seen.has_content) == ("abc", "STOP", True)


@FRAMES
def test_usage_is_read_from_a_chunk_without_text(frame):
    last = {"usageMetadata": {"promptTokenCount": 219, "candidatesTokenCount": 4, "thoughtsTokenCount": 167}}

    assert read(frame(chunk({"text": "a"}, finish="STOP"), last)).usage == Usage(
        input_tokens=219, output_tokens=171, reasoning_tokens=167
    )


def test_an_array_in_pieces_is_read_as_it_comes():
    body = array(
        chunk({"text": "a"}, usageMetadata=counts(12, 1)),
        chunk({"text": "b"}, finish="STOP", usageMetadata=counts(12, 6)),
    )

    for step in (1, 7, 100):
        seen = read(cut(body, range(0, len(body), step)))

        assert (seen.usage, seen.outcome) == (Usage(input_tokens=12, output_tokens=6), "ok")


def test_a_key_that_is_cut_in_two_is_read():
    body = sse(chunk({"text": "hi"}, finish="STOP", usageMetadata=counts(21, 4)))

    assert read(cut(body, [body.index(b"Metadata")])).usage == Usage(input_tokens=21, output_tokens=4)


@pytest.mark.parametrize("stream", [True, False])
def test_a_refused_prompt_is_blocked(stream):
    body = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 14, "totalTokenCount": 14},
    }

    for framed in (sse(body), array(body), json.dumps(body).encode()):
        seen = read(framed, stream=stream)

        assert (seen.outcome, seen.finish) == ("blocked", "SAFETY")
        assert seen.usage == Usage(input_tokens=14, output_tokens=0)
        assert seen.replies == ()


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [("STOP", "ok"), ("MAX_TOKENS", "ok"), ("SAFETY", "blocked"), ("PROHIBITED_CONTENT", "blocked"), ("OTHER", "ok")],
)
def test_the_finish_reason_tells_whether_it_was_blocked(finish, outcome):
    assert read(sse(chunk({"text": "a"}, finish=finish))).outcome == outcome


@FRAMES
def test_a_stream_without_a_finish_reason_is_truncated(frame):
    body = frame(chunk({"text": "a"}, usageMetadata=counts(9, 2)))

    assert read(body).outcome == "truncated"
    assert read(frame(chunk({"text": "a"}, finish="STOP")), complete=False).outcome == "truncated"


@pytest.mark.parametrize("frame", [sse, array, lambda *chunks: json.dumps(chunks[-1]).encode()])
def test_an_error_object_is_an_error_wherever_it_stands(frame):
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    seen = read(frame(chunk({"text": "a"}), error))

    assert (seen.outcome, seen.error_type, seen.error_code) == ("error", "UNAVAILABLE", 503)
    assert json.loads(seen.error_text) == error["error"]


def test_an_error_may_be_a_bare_text():
    assert read(b'{"error":"broken"}').error_text == '{"message":"broken"}'


def test_thoughts_are_no_visible_text_but_content():
    seen = read(sse(chunk({"text": "hm", "thought": True}, finish="STOP")), keep_text=True)

    assert (seen.text, seen.has_content) == ("", True)
    assert not read(sse(chunk({"text": "", "thoughtSignature": "S"}))).has_content
    assert read(sse(chunk({"inlineData": {"data": "A"}}))).has_content


def test_a_reply_is_recognised_when_the_client_sends_it_back():
    call = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "S"}
    seen = read(
        sse(chunk({"text": "hm", "thought": True}), chunk({"text": "he"}), chunk({"text": "llo"}, call, finish="STOP"))
    )
    sent_back = parse_content(json.dumps({"role": "model", "parts": [{"text": "hello"}, call]}).encode())

    assert seen.replies[0].fingerprint == reply_print([sent_back])
    assert (seen.tool_calls, seen.replies[0].calls) == (1, 1)


def test_arguments_that_are_streamed_are_one_call():
    parts = [
        {"functionCall": {"name": "f", "willContinue": True}},
        {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "b"}], "willContinue": True}},
        {"functionCall": {}},
    ]

    assert read(sse(*[chunk(part) for part in parts])).tool_calls == 1


def test_candidates_share_the_output_by_length():
    seen = read(
        sse(chunk({"text": "aaa"}, index=1, finish="STOP"), chunk({"text": "b"}, finish="STOP")), keep_text=True
    )

    assert [reply.share for reply in seen.replies] == [0.25, 0.75]


def test_code_assist_wraps_each_chunk():
    seen = read(sse({"response": chunk({"text": "a"}, finish="STOP", usageMetadata=counts(9, 2)), "traceId": "t"}))

    assert (seen.outcome, seen.usage.input_tokens) == ("ok", 9)


@pytest.mark.parametrize(
    "body", [b"", b" \n", b"data: 5\n\n", b"[5]", b"<html>", b'{"candidates":', b'{"candidates":[5,{"content":7}]}']
)
def test_nonsense_is_a_truncated_answer(body):
    seen = read(body)

    assert (seen.outcome, seen.usage) == ("truncated", NOT_REPORTED)
