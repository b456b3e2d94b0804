"""What is sent before it is counted must be what counting it would have left alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange.foregone import foregone, goes_as_it_came
from proxy.exchange.prepare import prepare
from proxy.exchange.receive import NO_MEMORY
from proxy.ledger.records import Queued
from proxy.tokens.learn import NOTHING_LEARNED
from proxy.tokens.usage import Usage
from tests.builders import (
    EAGER,
    Line,
    a_received,
    an_observation,
    calls,
    result,
    rounds,
    said,
    user,
    with_window,
    words,
)

COMPACTS = replace(EAGER, compact=replace(EAGER.compact, trigger="window"))
PLAIN = [user("hello"), said("hi"), user("go on")]


def is_foregone(history=PLAIN, policy=EAGER, *, memory=NO_MEMORY, queued=(), **fields):
    return goes_as_it_came(a_received(history, **fields), memory, policy, queued)


def test_a_plain_chat_is_foregone_also_with_calls_that_nobody_answered():
    assert is_foregone()
    assert is_foregone([*PLAIN, calls("c0")])
    assert is_foregone(policy=with_window(COMPACTS, 100_000))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ],
)
def test_media_weigh_more_than_their_bytes(part):
    assert not is_foregone([{"role": "user", "content": [part]}])


def test_results_and_reasoning_may_have_to_go():
    assert not is_foregone([user(), calls("c0"), result("c0")])
    assert not is_foregone([user(), said("done", reasoning_content="hm"), user()])


def test_what_is_put_into_the_body_is_no_foregone_matter():
    message = Queued(id="q1", text="mind the gap", at=1.0)
    assert not is_foregone(queued=(message,))
    assert not is_foregone(policy=replace(EAGER, auto_cache=True))
    assert not is_foregone(policy=replace(EAGER, ask_usage=True), stream=True)
    assert is_foregone(policy=replace(EAGER, ask_usage=True))
    assert is_foregone(policy=replace(EAGER, ask_usage=True), stream=True, stream_options={"include_usage": True})


def test_early_records_may_be_made_of_plain_text():
    assert not is_foregone(policy=replace(EAGER, compact=replace(EAGER.compact, early=True)))


def test_a_request_that_may_near_a_limit_is_counted_first():
    body = a_received().view.body

    def room_for(share, **more):
        return with_window(COMPACTS, 2 * int(share * len(body)), max_output=10**6, **more)

    # Half of the window is kept for the answer.
    assert is_foregone([user()], room_for(8.2))
    assert not is_foregone([user()], replace(COMPACTS, max_input=7 * len(body)))
    assert not is_foregone([user()], room_for(7.8))
    assert not is_foregone([user()], room_for(8.2, max_input=len(body)))
    half = replace(COMPACTS.compact, trigger="share", share=0.5)
    assert not is_foregone([user()], room_for(8.2, compact=half))
    assert is_foregone([user()], room_for(16.4, compact=half))


def test_what_the_provider_counted_before_is_held_against_the_limit_too():
    policy = with_window(COMPACTS, 100_000)
    line = Line(policy)
    ready = line.prepared(PLAIN[:1])
    line.answered(ready, an_observation("hi", usage=Usage(input_tokens=50_000)))
    received = a_received(PLAIN)

    assert goes_as_it_came(received, NO_MEMORY, policy, ())
    assert not goes_as_it_came(received, line.memory(received), policy, ())


def test_a_conversation_with_edits_is_not_foregone():
    line = Line(EAGER)
    history = [*rounds(words("a", 3000)), said("read it"), user("next")]
    line.turn(history)
    received = a_received(history)

    assert line.memory(received).plan.edits
    assert not goes_as_it_came(received, line.memory(received), EAGER, ())


pieces = st.sampled_from(
    [
        user("short"),
        user(words("u", 400)),
        said("ok"),
        said(words("s", 900)),
        said("thought", reasoning_content="hm " * 40),
        calls("c1"),
        result("c1", words("r", 600)),
        {"role": "system", "content": "be brief"},
    ]
)


@given(
    history=st.lists(pieces, min_size=1, max_size=8),
    window=st.sampled_from([None, 300, 2_000, 20_000, 200_000]),
    trigger=st.sampled_from(["window", "share", "off"]),
    share=st.sampled_from([0.05, 0.5, 1.0]),
    early=st.booleans(),
    mode=st.sampled_from(["off", "observe", "prune"]),
    counted=st.sampled_from([None, 10, 4_000, 60_000]),
    besides=st.sampled_from(["", "held out", "retried"]),
)
def test_whatever_is_foregone_prepare_leaves_alone(history, window, trigger, share, early, mode, counted, besides):
    compact = replace(EAGER.compact, trigger=trigger, share=share, early=early)
    policy = replace(with_window(EAGER, window), mode=mode, compact=compact, doubt=0.15)
    line = Line(policy)
    if counted is not None:
        line.answered(line.prepared([user("first")]), an_observation("ok", usage=Usage(input_tokens=counted)))
        history = [user("first"), said("ok"), *history]
    if besides == "retried":
        line.turn(history)
    received = a_received(history)
    asked = received, line.memory(received), policy
    if goes_as_it_came(*asked, ()):
        by = {"now": 7.0, "held_out": besides == "held out", "learned": NOTHING_LEARNED}
        ready = prepare(*asked, line.scale, **by)

        assert ready.body is received.view.body
        assert not ready.new_edits
        assert ready.need is None
        assert foregone(*asked, line.scale, **by) == ready


def test_what_was_taken_for_foregone_goes_out_as_it_came_whatever_it_is():
    line = Line(EAGER)
    history = [*rounds(words("a", 3000)), said("read it"), user("next")]
    line.turn(history)
    history = [*history, said("ok"), *rounds(words("b", 3000)), said("read that"), user("and now")]
    received = a_received(history)
    memory = line.memory(received)
    ready = foregone(received, memory, EAGER, line.scale, now=7.0, held_out=False, learned=NOTHING_LEARNED)

    assert memory.plan.edits
    assert ready.body is received.view.body
    assert not ready.changed
    assert ready.removed_tokens == 0
