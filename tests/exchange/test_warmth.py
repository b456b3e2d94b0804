"""What a provider's cache may still hold of a request."""

from dataclasses import replace

import msgspec
import pytest

from proxy.conversation.fingerprint import index_of
from proxy.exchange.policy import Policy
from proxy.exchange.receive import NO_MEMORY
from proxy.exchange.warmth import head_digests, oldest_entry, other_head, warmth_of
from proxy.pruning.situation import Prices
from proxy.tokens.usage import Usage
from tests.builders import (
    QUIET,
    Line,
    a_clear,
    a_memory,
    a_received,
    a_summary,
    an_observation,
    plan_of,
    rounds,
    said,
    user,
)

POLICY = Policy(prices=Prices(read=0.1, write=1.25), cache_ttl_s=300.0)
FIRST, NEXT = [user("u")], [user("u"), said("done"), user("next")]


def warmth(idle_s=10.0, policy=POLICY, usage=None, then=None, now=None):
    """Of the second call, so long after the first; `then` and `now`: what each of them had beside its messages."""
    line = Line(QUIET)
    usage = usage or Usage(input_tokens=100, output_tokens=5)
    line.answered(line.prepared(FIRST, now=1000.0, **(then or {})), an_observation("done", usage=usage))
    received = a_received(NEXT, caller=line.caller, **(now or {}))
    return warmth_of(received.conversation, a_memory(line, NEXT), policy, 1000.0 + idle_s)


def test_a_conversation_that_was_never_seen_is_not_taken_for_cold():
    assert not warmth_of(a_received(FIRST).conversation, NO_MEMORY, POLICY, 1000.0).cold


@pytest.mark.parametrize(
    ("idle_s", "outlives", "found"),
    [
        (300, False, (False, False)),
        (301, False, (True, False)),
        (301, True, (True, True)),
        (90_000, True, (True, False)),
    ],
)
def test_a_pause_makes_it_cold_for_certain_or_likely(idle_s, outlives, found):
    seen = warmth(idle_s, replace(POLICY, cache_outlives=outlives))

    assert (seen.cold, seen.doubtful) == found


def test_what_is_written_for_an_hour_is_dearer_and_stays():
    seen = warmth(3000, usage=Usage(input_tokens=100, cache_write_tokens=100, hour_write_tokens=100, output_tokens=5))

    assert not seen.cold
    assert seen.prices == Prices(read=0.1, write=2.0)


TOOL = {"type": "function", "function": {"name": "read", "parameters": {}}}


def test_other_tools_or_another_system_text_make_it_likely_to_be_cold():
    assert not warmth(then={"tools": [TOOL]}, now={"tools": [TOOL]}).cold
    seen = warmth(then={"tools": [TOOL]}, now={"tools": [TOOL, TOOL]})

    assert (seen.cold, seen.doubtful) == (True, True)


def test_another_model_has_a_cache_of_its_own():
    seen = warmth(now={"model": "another"})

    assert (seen.cold, seen.doubtful) == (True, True)
    assert not warmth(then={"model": "another"}, now={"model": "another"}).cold


def test_a_head_that_is_another_one_at_each_call_is_surely_not_cached():
    line = Line(replace(QUIET, prices=POLICY.prices))
    history = [user("u")]
    for number, read in enumerate((0, 0, 0, 90)):
        at = 1000.0 + 10 * number
        received = a_received(history, caller=line.caller, tools=[TOOL] * (number + 1))
        seen = warmth_of(received.conversation, a_memory(line, history), line.policy, at)

        assert (seen.cold, seen.doubtful) == [(False, False), (True, True), (True, False), (True, False)][number]
        ready = line.prepared(history, now=at, tools=[TOOL] * (number + 1))
        usage = Usage(input_tokens=100, cache_read_tokens=read, output_tokens=5)
        line.answered(ready, an_observation("done", usage=usage))
        history = [*history, said("done"), user(f"go on {number}")]
    # The last one read its history from the cache although its head was another one.
    received = a_received(history, caller=line.caller, tools=[TOOL])
    assert warmth_of(received.conversation, a_memory(line, history), line.policy, 1050.0).doubtful


def test_the_call_that_found_nothing_is_remembered_by_those_behind_it():
    line = Line(POLICY)
    line.turn(FIRST, now=1000.0)
    cold = line.turn([user("u"), said("ok"), user("next")], now=2000.0)
    warm = line.turn([user("u"), said("ok"), user("next"), said("ok"), user("last")], now=2010.0)

    assert (cold.anchor.rewritten, warm.anchor.rewritten) == (3, 3)


def test_calls_whose_history_the_client_has_changed_since_have_left_no_entries():
    line = Line(POLICY)
    history = [user("u"), said("ok"), user("next"), said("ok"), user("last")]
    for number in (1, 3, 5):
        line.turn(history[:number], now=1000.0 + number)
    changed = [*history[:2], user("other"), said("ok"), user("last"), said("ok"), user("more")]
    there = line.turn(changed, now=1010.0)
    behind = line.turn([*changed, said("ok"), user("most")], now=1020.0)

    assert line.prepared([*history, said("ok"), user("more")], now=1030.0).anchor.rewritten == 0
    assert (there.anchor.rewritten, behind.anchor.rewritten) == (7, 7)


def test_what_is_not_known_of_the_head_is_not_taken_for_a_change():
    received = a_received(FIRST, tools=[TOOL])
    anchor = Line(QUIET).prepared(FIRST, tools=[TOOL]).anchor
    unknown = msgspec.structs.replace(anchor, tools_digest=b"", system_digest=b"")

    assert other_head(anchor, b"", b"other")
    assert not other_head(anchor, *head_digests(received.conversation))
    assert not other_head(unknown, b"s", b"t")


def test_several_system_messages_have_one_digest():
    one, two = {"role": "system", "content": "a"}, {"role": "system", "content": "b"}
    digests = [
        head_digests(a_received([*head, user("u")]).conversation)[0] for head in ([], [one], [one, two], [two, one])
    ]

    assert digests[0] == b""
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("edits", "last", "found"),
    [
        ((), 8, 0),
        (((2, 7),), 4, 5),
        (((2, 7), (4, 9)), 3, 5),
        (((2, 7), (4, 9)), 4, 7),
        (((4, 9), (2, 7)), 8, 7),
        (((2, 99),), 4, 7),
    ],
    ids=["never edited", "edited", "edited behind", "edited again", "the newest counts", "in a longer line"],
)
def test_entries_begin_with_the_call_that_edited_last_and_the_one_before_it(edits, last, found):
    """Of rounds of call and result, `edits` replaces results: message and number of messages when that was decided."""
    received = a_received([*rounds("a", "b", "c", "d")])
    clears = [msgspec.structs.replace(a_clear(received, at), decided=decided) for at, decided in edits]
    messages = received.conversation.messages

    assert oldest_entry(messages, plan_of(*clears), index_of(received.keys), last) == found


def test_a_summary_begins_the_entries_anew_too():
    received = a_received([*rounds("a", "b", "c", "d")])
    plan = plan_of(msgspec.structs.replace(a_summary(received, 0, 2), decided=7))

    assert oldest_entry(received.conversation.messages, plan, index_of(received.keys), 4) == 5
