import json
from dataclasses import replace

import pytest
from msgspec import structs

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import EMPTY_PLAN
from proxy.exchange.ready import draft_of, read_lately, reads_more_later, ready_of, session_id
from proxy.exchange.receive import NO_MEMORY
from proxy.exchange.weigh import weigh
from proxy.pruning.situation import Prices
from proxy.tokens.learn import NOTHING_LEARNED
from tests.builders import (
    EAGER,
    QUIET,
    Line,
    a_clear,
    a_memory,
    a_received,
    a_scale,
    a_summary,
    plan_of,
    rounds,
    said,
    user,
    words,
)

HISTORY = [*rounds(words("old", 1000)), said("read"), user("next")]
TOOL = {"type": "function", "function": {"name": "read", "parameters": {}}}


def a_draft(plan=EMPTY_PLAN, policy=QUIET, **fields):
    received, scale = a_received(HISTORY, **fields), a_scale()
    return draft_of(received, NO_MEMORY, weigh(received, scale), scale, policy, NOTHING_LEARNED, plan)


def ready(draft):
    return ready_of(draft, now=5.0, skipped="", pressed=False)


def test_a_draft_under_another_plan_is_predicted_anew():
    draft = a_draft()
    other = draft.under(plan_of(a_clear(draft.received, 2)))

    assert draft.context.total - other.context.total == 1000 - 2
    assert sum(other.tokens) == sum(draft.tokens) - 998


def test_a_limit_of_the_input_alone_counts_where_it_is_the_smaller_one():
    tight = replace(QUIET, window=10_000, max_input=1_000)
    wide = replace(QUIET, window=10_000, max_input=9_999)

    assert a_draft(policy=tight).context.usable == 1_000
    assert a_draft(policy=tight).context.overflows
    assert (a_draft(policy=tight).context.room, a_draft(policy=wide).context.room) == (6_000, 10_000)
    assert a_draft(policy=wide).context.usable == a_draft(policy=replace(QUIET, window=10_000)).context.usable == 5_000


def test_a_counted_request_is_decided_by_its_count_and_measured_by_its_estimate():
    plain, counted = a_draft(), a_draft(policy=replace(QUIET, correction=70))
    other = ready(counted.under(plan_of(a_clear(counted.received, 2))))

    assert counted.context.total == plain.context.total + 70
    assert (counted.estimated, counted.inputs) == (plain.estimated, plain.inputs)
    assert other.context.total - other.estimated == 70
    assert other.estimated == plain.estimated - 998
    assert (ready(counted).known_tokens, ready(counted).anchor) == (ready(plain).known_tokens, ready(plain).anchor)


def test_r35_an_empty_plan_sends_the_very_same_object():
    draft = a_draft()

    assert ready(draft).body is draft.received.view.body
    assert not ready(draft).changed


def test_what_is_ready_says_what_stands_in_it():
    draft = a_draft()
    cleared = ready(draft.under(plan_of(a_clear(draft.received, 2))))
    summarised = ready(draft.under(plan_of(a_summary(draft.received, 1, 3))))

    assert (cleared.changed, cleared.summarised, cleared.removed_tokens) == (True, False, 998)
    assert (summarised.changed, summarised.summarised) == (True, True)


def test_new_edits_have_their_call_s_number_as_soon_as_they_stand_in_a_draft():
    draft = a_draft()
    inherited = structs.replace(a_clear(draft.received, 2), turn=4)
    later = structs.replace(draft, memory=structs.replace(NO_MEMORY, plan=plan_of(inherited)))
    both = later.under(plan_of(inherited, a_summary(draft.received, 0, 0)))

    assert [edit.turn for edit in both.plan.edits] == [4, 1]
    assert both.plan.edits[0] is inherited
    assert ready(both).plan is both.plan
    assert ready(both).new_edits == both.plan.edits[1:]


def test_observed_edits_are_kept_and_not_sent():
    draft = a_draft(policy=replace(QUIET, mode="observe"))
    found = ready(draft.under(plan_of(a_clear(draft.received, 2))))

    assert found.body is draft.received.view.body
    assert found.sent_plan == EMPTY_PLAN
    assert found.anchor.plan_id == found.plan.plan_id() != b""
    assert not found.anchor.sent
    assert found.context.total == draft.context.total


def test_r34_the_reserve_is_what_the_request_asks_for():
    assert a_draft(policy=replace(QUIET, window=10_000), max_tokens=1234).context.reserve == 1234


def test_a_wish_for_usage_is_no_change_of_the_conversation():
    found = ready(a_draft(policy=replace(QUIET, ask_usage=True), stream=True))

    assert found.asked_usage
    assert not found.changed
    assert json.loads(found.body)["messages"] == HISTORY


@pytest.mark.parametrize(
    ("more", "marked"),
    [({}, True), ({"mode": "observe"}, False), ({"mode": "off"}, False), ({"replay_only": True}, False)],
)
def test_breakpoints_are_no_change_of_the_conversation(more, marked):
    policy = replace(QUIET, auto_cache=True, **more)
    plain, found = (
        ready(a_draft(policy=one, path="/v1/messages")) for one in (replace(policy, auto_cache=False), policy)
    )

    assert found.marked is marked
    assert (b"cache_control" in found.body) is marked
    assert not found.changed
    assert (found.anchor, found.context, found.plan) == (plain.anchor, plain.context, plain.plan)


def test_a_session_is_named_after_its_first_call():
    assert session_id(b"k") == session_id(b"k") != session_id(b"l")
    assert len(session_id(b"k")) == 16
    assert ready(a_draft()).anchor.session == session_id(a_received(HISTORY).keys[-1])


def test_what_was_taken_out_is_told_in_the_providers_tokens():
    plain = a_draft()
    plan = plan_of(a_clear(plain.received, 2))
    denser = structs.replace(plain, learned=structs.replace(NOTHING_LEARNED, coefficients=(1.5, 0.0, 0.0, 0.0)))
    observed = structs.replace(denser, policy=replace(QUIET, mode="observe"))

    assert ready(plain.under(plan)).removed_tokens == 998
    assert ready(denser.under(plan)).removed_tokens == 1497
    assert ready(observed.under(plan)).would_remove_tokens == 1497


@pytest.mark.parametrize(
    ("policy", "idle_s", "more", "read"),
    [
        (QUIET, 10.0, {}, 3),
        (QUIET, 301.0, {}, 0),
        (QUIET, 10.0, {"tools": [TOOL, TOOL]}, 0),
        (QUIET, 10.0, {"model": "other"}, 0),
        (replace(QUIET, mode="observe"), 10.0, {}, 0),
        (EAGER, 10.0, {}, 2),
    ],
    ids=[
        "as before",
        "after a pause",
        "with other tools",
        "by another model",
        "sent otherwise",
        "with a result replaced",
    ],
)
def test_what_the_call_before_has_sent_was_read_lately(policy, idle_s, more, read):
    """The first call ends with the result, which stands third."""
    line = Line(policy)
    line.turn(HISTORY[:3], now=1000.0, tools=[TOOL])
    ready = line.prepared(
        HISTORY, now=1000.0 + idle_s, policy=replace(policy, mode="prune"), **{"tools": [TOOL]} | more
    )

    assert read_lately(ready, a_memory(line, HISTORY), policy) == read


def test_of_a_conversation_that_was_never_seen_nothing_is_known_to_have_been_read():
    assert read_lately(ready(a_draft()), NO_MEMORY, QUIET) == 0


FILLS = CompactPolicy(background_share=0.5, tail_share=0.1)
MARKED = replace(EAGER, prices=Prices(read=0.1, write=1.25), window=16_000, compact=FILLS)
"""A cache with breakpoints, and summaries that are begun at 4,000 tokens of 8,000."""


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"prices": Prices(read=0.1, write=1.0)}, False),
        ({"prices": None}, False),
        ({"compact": replace(FILLS, model="small")}, False),
        ({"prune": QUIET.prune}, False),
        ({"window": 10_000}, False),
        ({"window": 80_000}, False),
        ({"alternates": True}, False),
    ],
    ids=[
        "the entries stand behind the span",
        "any prefix is found",
        "nothing is cached",
        "another model writes it",
        "nothing was edited",
        "the window fills up",
        "no summary is due",
        "the summary call does not read the prefix",
    ],
)
def test_a_background_summary_reads_more_once_its_span_reaches_an_entry(changes, found):
    """A result is taken out of a conversation whose newest messages, which the summary leaves, are small."""
    policy = replace(MARKED, **changes)
    talk = [said(words("Yes", 1900)), user(words("More", 2200)), said("I do"), user("On"), said("I did"), user("And?")]
    ready = Line(policy).prepared([*HISTORY[:3], *talk], max_tokens=policy.window // 2)

    assert reads_more_later(ready, policy) is found
