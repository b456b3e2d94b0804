import json

import pytest

from proxy.dialects.openai_chat.stream import ChatAnswer, ChatStream, is_usage_only
from tests.dialects.builders import sse

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def read(*chunks, done=True, complete=True):
    reader = ChatStream(keep_text=True)
    reader.feed(sse(chunks) + (b"data: [DONE]\n\n" if done else b""))
    return reader.finish(complete=complete)


def whole(answer, before=b""):
    reader = ChatAnswer(keep_text=True)
    reader.feed(before)
    reader.feed(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
    return reader.finish(complete=True)


def chunk(index=0, finish=None, usage=None, **delta):
    found = {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}
    return {**found, "usage": usage} if usage else found


def call(index=0, identity="", name="", arguments=""):
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return {"index": index, **({"id": identity} if identity else {}), "function": function}


def test_a_failure_that_only_the_finish_reason_tells_is_named_by_it():
    assert read(chunk(content="hi"), chunk(finish="network_error")).error_type == "network_error"
    told = {**chunk(finish="error"), "error": {"type": "overloaded", "message": "x"}}
    assert read(told).error_type == "overloaded"


def test_a_refusal_is_content_and_no_text_to_go_on_with():
    streamed = read(chunk(content="", refusal="I can"), chunk(refusal="not."), chunk(finish="stop"))
    at_once = whole({"choices": [{"message": {"content": None, "refusal": "I cannot."}, "finish_reason": "stop"}]})

    assert (streamed.text, streamed.has_content) == (at_once.text, at_once.has_content) == ("", True)
    assert streamed.replies == at_once.replies


@pytest.mark.parametrize(
    ("chunks", "done", "outcome"),
    [
        ([chunk(content="hi"), chunk(finish="stop")], True, "ok"),
        # Some end without [DONE], some without a reason (Snowflake).
        ([chunk(content="hi"), chunk(finish="stop")], False, "ok"),
        ([chunk(content="hi")], True, "ok"),
        ([chunk(content="hi"), {"choices": [], "usage": USAGE}], False, "ok"),
        # A clean close in the middle is no end; nor is it where usage comes with every chunk.
        ([chunk(content="hi"), chunk(content="!")], False, "truncated"),
        ([chunk(content="hi", usage=USAGE), chunk(content="!", usage=USAGE)], False, "truncated"),
        ([], False, "truncated"),
        # Of several choices each has to end.
        ([chunk(0, content="hi"), chunk(1, content="ho"), chunk(1, finish="stop")], False, "truncated"),
        (
            [chunk(0, content="hi"), chunk(1, content="ho"), chunk(1, finish="stop"), chunk(0, finish="stop")],
            False,
            "ok",
        ),
        # Azure's first chunk has no choices, and no usage.
        ([{"choices": [], "prompt_filter_results": []}, chunk(content="hi")], False, "truncated"),
        # The end of nothing.
        ([], True, "truncated"),
        ([chunk(content="hi"), chunk(finish="length")], True, "ok"),
        ([chunk(content="hi"), chunk(finish="content_filter")], True, "blocked"),
        ([chunk(finish="sensitive")], True, "blocked"),
        ([chunk(finish="PROHIBITED_CONTENT")], True, "blocked"),
        # The provider says itself that it broke off, or why it failed, and ends the stream as always.
        ([chunk(content="hi"), chunk(finish="insufficient_system_resource", usage=USAGE)], True, "truncated"),
        ([chunk(content="hi"), chunk(finish="abort"), {"choices": [], "usage": USAGE}], True, "truncated"),
        ([chunk(content="hi"), chunk(finish="network_error")], True, "error"),
        ([chunk(content="hi"), {"error": {"message": "late", "code": 504}}], True, "error"),
        ([{"object": "error", "message": "vLLM's own form"}], False, "error"),
    ],
)
def test_what_became_of_a_stream(chunks, done, outcome):
    assert read(*chunks, done=done).outcome == outcome


def test_a_transport_that_broke_makes_it_truncated():
    assert read(chunk(content="hi"), chunk(finish="stop"), complete=False).outcome == "truncated"


@pytest.mark.parametrize(
    ("error", "kind", "code", "text"),
    [
        ({"error": {"message": "m", "type": "server_error", "code": "x"}}, "server_error", "x", "m"),
        ({"error": {"message": "m", "code": 504}}, "504", 504, "m"),
        ({"error": {"message": "m", "status_code": 400}}, "400", 400, "m"),
        ({"error": {"message": "m", "type": None, "code": None}}, "error", None, "m"),
        ({"error": "text"}, "error", None, "text"),
        ({"object": "error", "message": "m", "type": "BadRequestError", "code": 400}, "BadRequestError", 400, "m"),
        ({"type": "error", "message": "m", "code": 502}, "error", 502, "m"),
        ({"choices": None, "base_resp": {"status_code": 2013, "status_msg": "m"}}, "2013", 2013, "m"),
    ],
)
def test_an_error_says_what_it_is_in_a_stream_and_in_a_whole_answer(error, kind, code, text):
    for seen in (read(error), whole(error)):
        assert (seen.outcome, seen.error_type, seen.error_code) == ("error", kind, code)
        assert json.loads(seen.error_text)["message"] == text


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b'{"code": "InvalidParameter", "message": "m"}', "InvalidParameter"), (b"late", "error"), (b"", "truncated")],
)
def test_an_error_that_its_events_name_alone_tells_is_one(data, kind):
    reader = ChatStream(keep_text=True)
    reader.feed(sse([chunk(content="hi")]) + b"event: error\ndata: " + data + b"\n\n")
    seen = reader.finish(complete=True)

    assert kind in (seen.outcome, seen.error_type)


def test_pieces_of_parallel_calls_are_put_to_their_calls():
    """Interleaved indices, and a provider that begins a new call under an old index."""
    seen = read(
        chunk(tool_calls=[call(0, "a", "read", "{")]),
        chunk(tool_calls=[call(1, "b", "write", "{"), call(0, arguments="}")]),
        chunk(tool_calls=[call(1, arguments="}")]),
        chunk(tool_calls=[call(0, "c", "list", "{}")]),
        chunk(tool_calls=[call(0, "c", arguments="")]),
        chunk(finish="tool_calls"),
    )
    sent_back = {
        "choices": [
            {"message": {"tool_calls": [call(name=name, arguments="{}") for name in ("read", "write", "list")]}}
        ]
    }
    for number, one in enumerate(sent_back["choices"][0]["message"]["tool_calls"]):
        one.pop("index")
        one["id"] = str(number)

    assert seen.tool_calls == 3
    assert seen.replies[0].fingerprint == whole(sent_back).replies[0].fingerprint


def test_calls_without_index_or_id_are_calls_all_the_same():
    """Gemini's compatible endpoint."""
    calls = [{"id": "", "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]

    assert read(chunk(tool_calls=calls), chunk(finish="stop")).tool_calls == 2


def test_an_old_function_is_a_call():
    assert (
        read(chunk(function_call={"name": "f", "arguments": ""}), chunk(function_call={"arguments": "{}"})).tool_calls
        == 1
    )


def test_several_choices_share_the_bill_by_length():
    seen = read(
        chunk(2, content="x" * 30),
        chunk(0, content="y" * 10),
        chunk(1, content=""),
        *(chunk(index, finish="stop") for index in range(3)),
    )

    assert [reply.share for reply in seen.replies] == [0.25, 0.0, 0.75]
    assert seen.text == "y" * 10


def test_choices_that_said_nothing_share_equally():
    assert [reply.share for reply in read(chunk(0), chunk(1)).replies] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("delta", "has"),
    [
        ({"role": "assistant", "content": ""}, False),
        ({"content": "h"}, True),
        ({"reasoning_content": "hm"}, True),
        ({"reasoning": "hm"}, True),
        ({"refusal": "no"}, True),
        ({"tool_calls": [call(0, "a", "f")]}, True),
        ({"content": [{"type": "text", "text": "h"}]}, True),
    ],
)
def test_content_has_come_once_the_model_has_begun(delta, has):
    assert read(chunk(**delta)).has_content is has


def test_an_empty_delta_beside_the_message_is_passed_over():
    """Perplexity's whole answers."""
    choice = {
        "index": 0,
        "message": {"content": "Paris"},
        "delta": {"role": "assistant", "content": ""},
        "finish_reason": "stop",
    }

    assert whole({"choices": [choice]}).text == "Paris"


def test_a_message_that_grows_beside_the_deltas_is_not_counted_again():
    """Perplexity's streams."""
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "message": {"content": so_far}}]}
        for piece, so_far in (("Pa", "Pa"), ("ris", "Paris"))
    ]

    assert read(*chunks).text == "Paris"


def test_the_last_usage_wins_and_none_is_added():
    """Groq says it twice, Perplexity with every chunk."""
    seen = read(
        chunk(content="a", usage={"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}),
        {**chunk(finish="stop"), "x_groq": {"usage": USAGE}},
        {"choices": [], "usage": USAGE},
    )

    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (10, 5)


def test_blank_lines_before_a_whole_answer_are_passed_over():
    """DeepSeek keeps a connection alive so."""
    assert whole({"choices": [{"message": {"content": "hi"}}]}, before=b"\n\n\n").text == "hi"


@pytest.mark.parametrize(
    ("event", "alone"),
    [
        ({"choices": [], "usage": USAGE}, True),
        ({"usage": USAGE}, True),
        ({"choices": [], "usage": None}, False),
        ({"choices": [{"index": 0, "delta": {"content": "usage"}}], "usage": USAGE}, False),
        ({"choices": [], "usage": USAGE, "error": {"message": "x"}}, False),
        ({"choices": []}, False),
    ],
)
def test_an_event_of_usage_alone_is_known(event, alone):
    assert is_usage_only(json.dumps(event).encode()) is alone


@pytest.mark.parametrize("data", [b"[DONE]", b"", b'"usage"', b'{"usage":', b"[1]"])
def test_other_events_are_none(data):
    assert not is_usage_only(data)
