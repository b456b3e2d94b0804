"""Every recorded call of every dialect: read whole, byte by byte and cut at random, always with the right usage.

A dialect joins with a folder in tests/fixtures and a row here.
"""

import random
from itertools import pairwise, takewhile

import pytest

from proxy.conversation.fingerprint import reply_print
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.wire.body import splice
from tests.dialects.recordings import cut, expected, named, numbers, observe, recordings


def gemini_path(row):
    if row["api"] == "count_tokens":
        return "/v1beta/models/m:countTokens"
    return "/v1beta/models/m:" + ("generateContent" if row["stream"] == "no" else "streamGenerateContent")


PATHS = {
    "openai_chat": lambda _: "/v1/chat/completions",
    "openai_responses": lambda row: "/v1/responses" + ("/input_tokens" if row["api"].endswith("tokens") else ""),
    "anthropic_messages": lambda row: "/v1/messages" + ("/count_tokens" if row["api"].endswith("tokens") else ""),
    "gemini": gemini_path,
}
ROWS = [
    pytest.param(dialect_for(path(recording.row)), path(recording.row), recording, id=f"{name}-{named(recording)}")
    for name, path in PATHS.items()
    for recording in recordings(name)
]
every_recording = pytest.mark.parametrize(("dialect", "path", "recording"), ROWS)


@every_recording
def test_usage_is_read_as_the_index_says(dialect, path, recording):
    seen = observe(dialect, [recording.response], stream=recording.stream)

    assert numbers(seen.usage) == expected(recording, seen.usage)


@every_recording
def test_an_answer_is_an_error_exactly_when_it_holds_one(dialect, path, recording):
    seen = observe(dialect, [recording.response], stream=recording.stream)
    fails = "error" in recording.row["features"]

    assert seen.outcome == ("error" if fails else "ok")
    assert bool(seen.error_type) == bool(seen.error_text) == fails
    if not fails and not dialect.is_count(path):
        assert seen.has_content
        # Snowflake's streams end without a reason.
        assert seen.finish or b"finish_reason" not in recording.response
        assert len(seen.replies) == 1
    assert seen.tool_calls == sum(reply.calls for reply in seen.replies)
    if recording.has_usage:
        assert (seen.tool_calls > 0) == ("tool_calls" in recording.row["features"])


@every_recording
def test_no_cut_of_the_bytes_changes_what_is_read(dialect, path, recording):
    body = recording.response
    whole = observe(dialect, [body], stream=recording.stream, keep_text=True)
    chance = random.Random(recording.name)
    by_bytes = [body[at : at + 1] for at in range(len(body))]

    assert observe(dialect, by_bytes, stream=recording.stream, keep_text=True) == whole
    for _ in range(5):
        pieces = cut(body, [chance.randrange(len(body)) for _ in range(20)])

        assert observe(dialect, pieces, stream=recording.stream, keep_text=True) == whole


@every_recording
def test_an_answer_that_breaks_off_is_truncated_or_failed(dialect, path, recording):
    seen = observe(
        dialect, [recording.response[: len(recording.response) // 3]], stream=recording.stream, complete=False
    )

    assert seen.outcome in ("truncated", "error")


@every_recording
def test_every_request_has_a_view_whose_spans_are_its_messages(dialect, path, recording):
    body = recording.request
    if body is None:
        pytest.skip("the recording has no request")
    view = dialect.view(path, {}, body, Recall())

    assert view is not None
    assert view.body is body
    assert len(view.spans) == len(view.conversation.messages) > 0
    assert splice(body, [(span, body[slice(*span)]) for span in view.spans]) == body
    if recording.status == 200:
        assert view.conversation.stream == recording.stream
    for start, end in view.spans:
        assert body[start:end].startswith(b"{")
        assert body[start:end].endswith(b"}")


def continued():
    """Pairs of calls in which the second request carries on the first one's conversation."""
    for (dialect, path, before), (_, _, after) in pairwise(row.values for row in ROWS):
        stem, _, turn = before.name.rpartition(".t")
        if stem and after.name == f"{stem}.t{int(turn) + 1}" and before.request and after.request:
            # pydantic-ai sends Groq's reasoning back as visible text; and after a failed call, a text of its own.
            if b"<think>" in after.request:
                continue
            told = [dialect.view(path, {}, one.request, Recall()).conversation.messages for one in (before, after)]
            if len(told[1]) > len(told[0]):
                yield pytest.param(dialect, before, *told, id=named(before))


@pytest.mark.parametrize(("dialect", "before", "earlier", "later"), list(continued()))
def test_the_next_request_begins_with_the_history_and_the_answer(dialect, before, earlier, later):
    seen = observe(dialect, [before.response], stream=before.stream)
    sent_back = list(takewhile(lambda message: message.role == "assistant", later[len(earlier) :]))

    assert [message.digest for message in later[: len(earlier)]] == [message.digest for message in earlier]
    assert sent_back
    assert reply_print(sent_back) == seen.replies[0].fingerprint
