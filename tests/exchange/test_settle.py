import json
import re

import pytest

from proxy.exchange.policy import Policy
from proxy.pricing.prices import price_for
from proxy.stores.codec import pack, unpack_turn
from proxy.tokens.fit import IDENTITY
from proxy.tokens.learn import NOTHING_LEARNED, Learned, update
from proxy.tokens.usage import NOT_REPORTED, Usage
from tests.builders import (
    EAGER,
    QUIET,
    Line,
    a_summary,
    an_observation,
    calls,
    result,
    rounds,
    said,
    user,
    with_window,
    words,
)

USED = Usage(input_tokens=100, output_tokens=20)
USED_UP = Usage(input_tokens=1_000, output_tokens=20)
SEEN = [*rounds(words("old", 2000)), said("read it"), user("next")]


def settled(history=None, *, policy=QUIET, usage=USED, observed=None, **circumstances):
    line = Line(policy)
    ready = line.prepared(history or [user("x" * 400)])
    return line.answered(ready, an_observation(usage=usage, **(observed or {})), **circumstances)


# Does the conversation advance?


@pytest.mark.parametrize(
    ("outcome", "usage", "circumstances", "advances", "row"),
    [
        ("ok", USED, {}, True, "ok"),
        ("ok", NOT_REPORTED, {}, True, "ok"),
        ("blocked", USED, {}, True, "blocked"),
        ("error", USED, {}, False, "error"),
        ("truncated", NOT_REPORTED, {}, False, "truncated"),
        ("truncated", USED, {}, True, "truncated"),
        ("ok", USED, {"client_gone": True}, True, "ok"),
        ("truncated", USED, {"client_gone": True}, True, "client_closed"),
        ("truncated", NOT_REPORTED, {"client_gone": True}, False, "client_closed"),
        ("ok", USED, {"status": 429}, False, "error"),
        ("ok", NOT_REPORTED, {"status": 0}, False, "error"),
    ],
)
def test_r2_c46_a_call_advances_when_its_answer_is_known(outcome, usage, circumstances, advances, row):
    found = settled(usage=usage, observed={"outcome": outcome}, **circumstances)

    assert (found.anchor is not None) is advances
    assert found.turn.outcome == row


@pytest.mark.parametrize("tokens", [0, None, 10_000_000, 1])
def test_c42_c43_usage_that_cannot_be_is_no_anchor(tokens):
    found = settled([user("x" * 4000)], policy=with_window(QUIET, 128_000), usage=Usage(input_tokens=tokens))

    assert found.anchor.usage is None
    assert not found.sample.usable
    assert found.turn.cost is None


def test_what_was_learned_of_first_calls_rules_no_count_out():
    line = Line()
    ready = line.prepared([user("x" * 4000)], learned=Learned(preamble=50_000.0, samples=9))
    found = line.answered(ready, an_observation(usage=USED_UP))

    assert ready.context.total > 50_000
    assert found.anchor.usage == USED_UP
    assert found.sample.usable


def test_c40_the_next_context_begins_with_the_last_sampling():
    """One call that compacted on the server and then answered: 60,997 are paid for, 612 + 2,819 stand there."""
    billed = Usage(input_tokens=60_997, output_tokens=3_341)
    last = Usage(input_tokens=612, output_tokens=2_819)
    found = settled([user("x" * 4000)], usage=billed, observed={"context": last})

    assert found.anchor.usage == last
    assert found.turn.usage == billed


# What the row tells


def test_r13_the_row_holds_every_count_as_it_was_reported():
    usage = Usage(input_tokens=100, cache_read_tokens=60, cache_write_tokens=None, output_tokens=20, reasoning_tokens=0)

    assert settled(usage=usage).turn.usage == usage


def test_nothing_reported_is_not_nought():
    turn = settled(usage=Usage(input_tokens=0, output_tokens=0)).turn

    assert turn.usage == NOT_REPORTED
    assert turn.error is None


def test_row_counts_edits_and_says_them_without_content():
    line = Line(EAGER)
    first = line.answered(line.prepared(SEEN)).turn
    second = line.answered(line.prepared([*SEEN, said(), user()])).turn

    assert (first.edits, first.new_edits) == ({"clear": 1}, {"clear": 1})
    assert (second.edits, second.new_edits) == ({"clear": 1}, {})
    assert first.decisions[0].startswith("clear read -19")
    assert "lorem" not in str(first.decisions)


def test_row_says_which_tools_fill_the_context():
    history = [user(), calls("a", tool="read"), result("a", words("a", 100)), calls("b", tool="bash"), result("b", "x")]
    turn = settled(history).turn

    assert turn.by_tool == {"read": 103, "bash": 4}


def test_the_row_tells_results_and_edits_in_the_providers_tokens_as_it_does_what_they_come_to():
    line = Line(EAGER)
    known = line.answered(line.prepared(SEEN)).turn
    learned = Learned(coefficients=(0.5, *IDENTITY[1:]), samples=9)
    turn = Line(EAGER).answered(Line(EAGER).prepared(SEEN, learned=learned)).turn
    said = [int(re.search(r"[+-]\d+", line)[0]) for line in turn.decisions]

    assert (known.factor, turn.factor) == (1.0, 0.5)
    assert abs(turn.removed_tokens - known.removed_tokens / 2) <= 1
    assert abs(sum(said) + turn.removed_tokens) <= len(said)
    assert turn.by_tool == {tool: round(tokens / 2) for tool, tokens in known.by_tool.items()}
    assert [item.tokens for item in turn.largest] == [round(item.tokens / 2) for item in known.largest]


def test_grown_is_what_the_estimate_really_had_to_guess():
    line = Line()
    line.turn([user("a" * 400)])
    ready = line.prepared([user("a" * 400), said("done"), user("b" * 400)])
    guessed = ready.context.new
    found = line.answered(ready, an_observation(usage=Usage(input_tokens=ready.context.total + 7, output_tokens=1)))

    assert found.turn.grown == guessed + 7
    assert settled().turn.grown is None


def test_both_bills_are_equal_where_nothing_was_removed():
    price = price_for("gpt-4o", upstream="openai")
    turn = settled(price=price).turn

    assert turn.cost == turn.cost_unpruned > 0


# What the call teaches


def test_r14_the_sample_is_the_growth_and_not_the_whole():
    line = Line()
    line.turn([user("a" * 4000)])
    ready = line.prepared([user("a" * 4000), said("done"), user("b" * 400)])
    sample = line.answered(ready).sample

    assert sample.anchored
    assert sample.usable
    assert sample.growth.tokens == ready.context.new
    assert sample.actual == ready.context.new


def test_the_row_says_how_many_samples_corrected_the_estimate():
    line = Line(QUIET)
    learned = NOTHING_LEARNED
    for number in range(3):
        ready = line.prepared([user(f"first call of conversation {number}")], learned=learned)
        learned = update(learned, line.answered(ready).sample)
    found = line.answered(line.prepared([user()], learned=learned))

    assert found.turn.learned_from == 3


@pytest.mark.parametrize(
    "trouble",
    [
        {"observed": {"outcome": "truncated"}},
        {"observed": {"server_edited": True}},
        {"usage": NOT_REPORTED},
        {"observed": {"outcome": "truncated"}, "client_gone": True},
    ],
)
def test_troubled_calls_teach_nothing(trouble):
    assert not settled(**trouble).sample.usable


def test_a_call_with_a_new_edit_of_the_anchored_part_teaches_nothing():
    line = Line(QUIET)
    line.turn(SEEN)
    found = line.answered(line.prepared([*SEEN, said(), user()], policy=EAGER))

    assert not found.sample.usable


def test_a_call_with_a_summary_in_it_teaches_nothing():
    line = Line(Policy(window=100_000))
    history = [*SEEN, said(), user()]
    ready = line.prepared(history)
    again = line.prepared(history, summary=a_summary(ready.received, 1, 3))

    assert again.summarised
    assert not line.answered(again).sample.usable


def test_a_call_whose_history_only_the_provider_has_teaches_nothing_before_it_is_measured():
    line = Line()

    def answered(held):
        body = json.dumps({"model": "m", "input": "go on", "previous_response_id": held}).encode()
        ready = line.prepared(path="/v1/responses", body=body)
        found = line.answered(
            ready, an_observation(usage=Usage(input_tokens=9_000, output_tokens=20), response_id="r2")
        )
        line.anchors.update({anchor.key: anchor for anchor in found.others})
        return found.sample

    first, second = answered("r1"), answered("r2")

    assert (first.anchored, first.usable) == (False, False)
    assert (second.anchored, second.usable) == (True, True)


def test_what_goes_on_from_an_answer_that_is_still_to_come_is_the_same_session():
    line = Line()

    def answered(usage, **more):
        body = json.dumps({"model": "m", "input": "go on", **more}).encode()
        found = line.answered(
            line.prepared(path="/v1/responses", body=body), an_observation(usage=usage, response_id="r1")
        )
        line.anchors.update({anchor.key: anchor for anchor in found.others})
        return found

    first = answered(NOT_REPORTED, background=True).turn
    second = answered(USED, previous_response_id="r1").turn
    for usage in (USED, NOT_REPORTED):
        answered(usage, conversation="c1")

    assert (second.session, second.turn, second.basis) == (first.session, 2, "estimated")
    # A conversation keeps the last of its calls that was measured.
    assert (
        line.prepared(path="/v1/responses", body=b'{"model":"m","input":"x","conversation":"c1"}').context.last_input
        == USED.input_tokens
    )


def test_the_same_words_again_go_on_from_the_last_call_of_a_conversation_that_the_provider_holds():
    line = Line()
    turns = []
    for words_, tokens in (("go on", 100), ("why?", 9_000), ("go on", 9_100)):
        body = json.dumps({"model": "m", "input": words_, "conversation": "c1"}).encode()
        ready = line.prepared(path="/v1/responses", body=body)
        found = line.answered(ready, an_observation(usage=Usage(input_tokens=tokens, output_tokens=20)))
        line.anchors.update({anchor.key: anchor for anchor in found.others})
        turns.append((found.turn.turn, found.turn.last_input))

    assert turns == [(1, 0), (2, 100), (3, 9_000)]


def test_a_side_call_of_the_client_is_marked():
    found = settled([*SEEN[:-1], user("Generate a title for this conversation")])

    assert found.turn.purpose == "utility"
    assert not found.sample.usable


def test_times_are_told_to_the_microsecond():
    turn = settled(overhead_ms=1.23456, upstream_ms=700.0004, exact_ms=0.0126).turn

    assert (turn.overhead_ms, turn.upstream_ms, turn.exact_ms) == (1.235, 700.0, 0.013)


def test_a_providers_name_for_an_error_is_short_and_text():
    """Some write a whole text where a name belongs; half of a surrogate pair cannot be written at all."""
    found = settled(observed={"outcome": "error", "error_type": "\ud800" + "x" * 5000, "error_code": "\udfff"})

    assert found.turn.error_type == "?" + "x" * 119
    assert found.turn.error_code == "?"


@pytest.mark.parametrize(
    ("code", "kept"), [(504, 504), (None, None), (10**30, None), (True, None), (1.5, None), ([400], None), ({}, None)]
)
def test_an_error_number_that_no_log_or_row_can_hold_is_none(code, kept):
    turn = settled(observed={"outcome": "error", "error_code": code}).turn

    assert turn.error_code is None if kept is None else turn.error_code == kept
    assert unpack_turn(pack(turn)) == turn


def test_an_answers_id_may_be_anything():
    assert settled(observed={"response_id": "\ud800"}).others


# What the cache has lost


@pytest.mark.parametrize(("read", "rewritten"), [(1900, 0), (700, 5), (0, 5), (None, 0)])
def test_a_cache_that_lost_what_it_still_had_a_call_before_has_no_older_entries(read, rewritten):
    history = [user("x" * 8000), said("well"), user("y"), said("so"), user("z")]
    line = Line(QUIET)
    for messages, found in ((history[:1], 0), (history[:3], 1900)):
        usage = Usage(input_tokens=2000, cache_read_tokens=found, output_tokens=20)
        line.answered(line.prepared(messages), an_observation("well" if len(messages) == 1 else "so", usage=usage))
    usage = Usage(input_tokens=2100, cache_read_tokens=read, output_tokens=20)
    found = line.answered(line.prepared(history), an_observation("done", usage=usage))

    assert found.anchor.rewritten == rewritten
    # Those behind it know as well.
    assert line.prepared([*history, said("done"), user("on")]).anchor.rewritten == rewritten


def test_what_a_new_edit_broke_is_no_loss_of_the_cache_s_own():
    line = Line(EAGER)
    usage = Usage(input_tokens=2100, cache_read_tokens=2000, output_tokens=20)
    line.answered(line.prepared(SEEN[:3]), an_observation("read it", usage=usage))
    ready = line.prepared(SEEN)
    found = line.answered(ready, an_observation("done", usage=Usage(input_tokens=90, cache_read_tokens=0)))

    assert ready.new_edits
    assert found.anchor.rewritten == 0
