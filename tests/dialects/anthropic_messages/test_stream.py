import json

import pytest

from proxy.dialects.anthropic_messages.stream import MessagesAnswer, MessagesStream
from tests.dialects.builders import sse

START = {
    "type": "message_start",
    "message": {"id": "m", "content": [], "usage": {"input_tokens": 50, "output_tokens": 1}},
}
STOP = {"type": "message_stop"}


def read(*events, complete=True, keep_text=True):
    reader = MessagesStream(keep_text=keep_text)
    reader.feed(sse(events, named=True))
    return reader.finish(complete=complete)


def whole(answer):
    reader = MessagesAnswer(keep_text=True)
    reader.feed(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
    return reader.finish(complete=True)


def block(kind, index=0, **more):
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **more}}


def delta(index=0, **more):
    return {"type": "content_block_delta", "index": index, "delta": more}


def end(reason, usage=None, **more):
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage or {"output_tokens": 9}, **more}


def say(text):
    return block("text", text=""), delta(type="text_delta", text=text)


def test_start_and_delta_make_one_usage():
    start = {
        **START,
        "message": {
            "usage": {
                "input_tokens": 50,
                "cache_creation_input_tokens": 120,
                "cache_read_input_tokens": 2400,
                "output_tokens": 1,
            }
        },
    }
    seen = read(start, *say("hi"), end("end_turn", {"output_tokens": 77}), STOP)

    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (2570, 77)
    assert (seen.usage.cache_read_tokens, seen.usage.cache_write_tokens) == (2400, 120)
    assert (seen.outcome, seen.finish, seen.text) == ("ok", "end_turn", "hi")
    assert seen.context is None


def test_output_is_not_reported_before_the_model_has_written_it():
    cut = read(START, *say("a long answer that breaks off"), complete=False)

    assert (cut.usage.input_tokens, cut.usage.output_tokens) == (50, None)


def test_a_type_that_stands_in_the_events_name_alone_is_read():
    reader = MessagesStream(keep_text=True)
    for event in (START, *say("hi"), end("end_turn"), STOP):
        untyped = {name: value for name, value in event.items() if name != "type"}
        reader.feed(f"event: {event['type']}\ndata: {json.dumps(untyped)}\n\n".encode())
    seen = reader.finish(complete=True)

    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.outcome, seen.text) == (50, 9, "ok", "hi")


def test_the_type_inside_the_data_counts_not_the_events_name():
    reader = MessagesStream(keep_text=True)
    reader.feed(sse([START, *say("hi"), end("end_turn"), STOP]))
    seen = reader.finish(complete=True)

    assert (seen.outcome, seen.text, seen.usage.input_tokens) == ("ok", "hi", 50)


@pytest.mark.parametrize(
    ("events", "outcome", "error_type"),
    [
        # A stream that stops early, in whichever way, is no answer.
        ([START, *say("hi")], "truncated", ""),
        ([START, *say("hi"), end("end_turn")], "truncated", ""),
        ([], "truncated", ""),
        # An error in a stream whose head said 200.
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}], "error", "overloaded_error"),
        ([START, *say("hi"), {"type": "error", "error": {"type": "api_error", "message": "x"}}], "error", "api_error"),
        ([{"error": {"code": 504, "message": "late"}}], "error", "504"),
        ([{"error": "text"}], "error", "error"),
        # Some gateways leave out the inner object.
        ([START, *say("hi"), {"type": "error", "message": "busy"}], "error", "error"),
        # Refused by the model's guard.
        ([START, *say("I"), end("refusal"), STOP], "blocked", ""),
        # Full, cut by the limit, paused: answers all the same.
        ([START, *say("I"), end("model_context_window_exceeded"), STOP], "ok", ""),
        ([START, *say("I"), end("max_tokens"), STOP], "ok", ""),
        ([START, *say("I"), end("pause_turn"), STOP], "ok", ""),
    ],
)
def test_what_became_of_a_stream(events, outcome, error_type):
    seen = read(*events)

    assert (seen.outcome, seen.error_type) == (outcome, error_type)


def test_a_transport_that_broke_makes_it_truncated_whatever_was_said():
    assert read(START, *say("hi"), end("end_turn"), STOP, complete=False).outcome == "truncated"


def test_an_error_keeps_its_text_for_the_refusals():
    seen = read(
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
        }
    )

    assert json.loads(seen.error_text)["message"] == "prompt is too long: 9 tokens > 8 maximum"
    assert not seen.has_content
    assert seen.replies == ()


def test_calls_are_counted_and_the_providers_own_are_not():
    seen = read(
        START,
        block("server_tool_use", name="web_search", id="s"),
        block("web_search_tool_result", 1),
        block("tool_use", 2, name="read", id="a"),
        delta(2, type="input_json_delta", partial_json="{}"),
        block("tool_use", 3, name="read", id="b"),
        end("tool_use"),
        STOP,
    )

    assert seen.tool_calls == 2
    assert [reply.calls for reply in seen.replies] == [2]
    assert seen.text == ""


@pytest.mark.parametrize(
    ("events", "has"),
    [
        ([START, {"type": "ping"}], False),
        ([START, block("text", text="")], False),
        ([START, *say("h")], True),
        ([START, block("thinking", thinking="", signature="")], True),
        ([START, block("tool_use", name="x")], True),
    ],
)
def test_content_has_come_once_the_model_has_begun(events, has):
    assert read(*events).has_content is has


def test_what_the_provider_did_to_the_history_is_told():
    dropped = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch", "path": "messages.1.content.0"}
    allowed = {"type": "thinking_mismatch_allowed", "path": "messages.3.content.0"}
    seen = read(START, *say("hi"), end("end_turn", input_transformations=[dropped, dropped, allowed]), STOP)
    repeated = read(
        {**START, "message": {**START["message"], "input_transformations": [dropped]}},
        end("end_turn", input_transformations=[dropped]),
        STOP,
    )

    assert seen.dropped_reasoning == 2
    assert repeated.dropped_reasoning == 1
    assert not seen.server_edited


@pytest.mark.parametrize(
    ("events", "edited"),
    [
        ([end("end_turn", context_management={"applied_edits": []})], False),
        (
            [
                end(
                    "end_turn",
                    context_management={
                        "applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2}]
                    },
                )
            ],
            True,
        ),
        ([block("compaction", content=None), end("end_turn")], True),
        (
            [
                end(
                    "end_turn",
                    {"output_tokens": 1, "iterations": [{"type": "compaction", "input_tokens": 5, "output_tokens": 1}]},
                )
            ],
            True,
        ),
        ([end("end_turn", context_management=None)], False),
    ],
)
def test_a_history_that_the_provider_edited_is_marked(events, edited):
    assert read(START, *events, STOP).server_edited is edited


def test_the_context_after_several_samplings_is_told_apart_from_the_bill():
    steps = [
        {"type": "message", "input_tokens": 100, "output_tokens": 20},
        {"type": "message", "input_tokens": 140, "output_tokens": 30},
    ]
    usage = {"input_tokens": 240, "output_tokens": 50, "iterations": steps}
    seen = read(START, *say("hi"), end("end_turn", usage), STOP)

    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (240, 50)
    assert (seen.context.input_tokens, seen.context.output_tokens) == (140, 30)


def test_a_whole_message_is_read():
    answer = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "hello"},
            {"type": "tool_use", "id": "a", "name": "read", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
        "context_management": {"applied_edits": [{"type": "clear_thinking_20251015"}]},
    }
    seen = whole(answer)

    assert (seen.outcome, seen.text, seen.finish, seen.tool_calls) == ("ok", "hello", "tool_use", 1)
    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (5, 7)
    assert seen.server_edited


def test_a_count_is_read():
    seen = whole({"input_tokens": 641, "context_management": {"original_input_tokens": 900}})

    assert (seen.outcome, seen.usage.input_tokens, seen.usage.output_tokens) == ("ok", 641, None)
    assert seen.replies == ()
    assert not seen.server_edited


def test_a_whole_answer_that_is_cut_is_truncated():
    assert whole(b'{"type":"message","content":[').outcome == "truncated"


def test_text_is_kept_only_where_it_is_asked_for():
    assert read(START, *say("hi"), end("end_turn"), STOP, keep_text=False).text == ""
