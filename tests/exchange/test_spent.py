"""Reasoning of earlier turns, which some providers take out by themselves."""

import json
from dataclasses import replace

import pytest

from proxy.exchange.prepare import prepare
from proxy.exchange.spent import (
    dropped_share,
    drops_reasoning,
    left_reasoning,
    spent_reasoning,
    swallowed_reasoning,
    told_reasoning,
)
from proxy.pruning.reasoning import LEAVE_REASONING
from proxy.pruning.reasoning_rules import OPTIONAL
from proxy.tokens.learn import NOTHING_LEARNED, Learned
from proxy.tokens.usage import Usage
from tests.builders import EAGER, QUIET, Line, a_memory, a_received, an_observation, calls, result, said, user, words

THOUGHT = words("thought", 500)
DROPS = replace(QUIET, reasoning=replace(LEAVE_REASONING, rule=replace(OPTIONAL, drops=True)))


def thinking(message):
    return {**message, "reasoning_content": THOUGHT}


TURN = [user("go"), thinking(calls("c1")), result("c1", "done"), thinking(said("well"))]
SPOKEN = [*TURN, user("and now?")]


def led(policy, *, dropped):
    """The turn's two calls at a provider that counts as we do, and then the user's next words."""
    line = Line(policy)
    first = line.prepared(TURN[:1])
    line.answered(first, an_observation("", usage=Usage(input_tokens=5100, output_tokens=520, reasoning_tokens=500)))
    line.answered(
        line.prepared(TURN[:3]),
        an_observation("well", usage=Usage(input_tokens=5650, output_tokens=510, reasoning_tokens=500)),
    )
    ready = line.prepared(SPOKEN)
    actual = ready.estimated - ready.inputs.spent * (dropped - ready.drops_reasoning)
    return ready, line.answered(ready, an_observation("ok", usage=Usage(input_tokens=actual, output_tokens=5)))


def test_the_turn_that_has_ended_is_told_by_the_user_s_words():
    ready, _ = led(QUIET, dropped=False)
    line = Line(QUIET)
    line.answered(line.prepared(TURN[:1]), an_observation("", usage=Usage(input_tokens=100, output_tokens=520)))
    inside = TURN[:3]
    received = a_received(inside, caller=line.caller)

    assert ready.inputs.spent == pytest.approx(1000, rel=0.05)
    assert spent_reasoning(received, a_memory(line, inside), 2, line.scale, 1.0, ()) == 0


def test_words_for_this_moment_only_end_no_turn_that_they_had_not_ended_before():
    line = Line(DROPS)
    history = TURN[:1]
    for number in range(3):
        ready = line.prepared([*history, user(f"It is {number} o'clock.")])
        line.answered(
            ready, an_observation("", usage=Usage(input_tokens=5000, output_tokens=520, reasoning_tokens=500))
        )
        history = [*history, thinking(calls(f"c{number}")), result(f"c{number}", "done")]

    assert ready.context.basis == "anchored"
    assert line.prepared([*history, user("It is 4 o'clock.")]).inputs.spent == 0


def test_where_the_provider_drops_it_it_weighs_nothing_and_is_taken_off_what_was_counted():
    kept, _ = led(QUIET, dropped=False)
    gone, _ = led(DROPS, dropped=True)

    assert kept.estimated - gone.estimated == gone.inputs.spent
    assert kept.weighed.total - gone.weighed.total == pytest.approx(1000, rel=0.05)
    assert gone.weighed.reasoning == 0
    # Within its turn it counts.
    assert Line(DROPS).prepared(TURN[:3]).weighed.reasoning > 450


@pytest.mark.parametrize(("policy", "dropped"), [(QUIET, True), (QUIET, False), (DROPS, True), (DROPS, False)])
def test_the_provider_s_own_count_tells_whether_it_does(policy, dropped):
    _, settled = led(policy, dropped=dropped)

    assert settled.sample.turns_dropped == pytest.approx(float(dropped), abs=0.01)


@pytest.mark.parametrize(("old", "tells"), [(300, True), (3000, False)])
def test_a_call_with_new_edits_tells_it_too_where_they_take_out_less(old, tells):
    line = Line(QUIET)
    turn = [*TURN[:2], result("c1", words("old", old)), TURN[3]]
    usage = Usage(input_tokens=5000, output_tokens=520, reasoning_tokens=500)
    line.answered(line.prepared(turn[:1]), an_observation("", usage=usage))
    line.answered(line.prepared(turn[:3]), an_observation("well", usage=usage))
    ready = line.prepared([*turn, user("and now?")], policy=EAGER)
    actual = ready.estimated - ready.inputs.spent
    settled = line.answered(ready, an_observation("ok", usage=Usage(input_tokens=actual, output_tokens=5)))

    assert ready.new_edits
    assert not settled.sample.usable
    assert (settled.sample.turns_dropped == 1.0) is tells
    assert (settled.sample.turns_dropped is None) is not tells


def test_little_reasoning_tells_nothing():
    assert dropped_share(1000, 990, 99, dropped=False) is None
    assert dropped_share(1000, 900, 100, dropped=False) == 1.0
    assert dropped_share(1000, 5000, 100, dropped=True) == 0.0


def test_what_was_learned_comes_before_the_table():
    rule = DROPS.reasoning

    assert drops_reasoning(rule, NOTHING_LEARNED)
    assert not drops_reasoning(rule, Learned(turns_dropped=0.1))
    assert drops_reasoning(LEAVE_REASONING, Learned(turns_dropped=0.9))
    # What we take out ourselves nobody else need take out.
    assert not drops_reasoning(replace(rule, strip="all"), NOTHING_LEARNED)


def test_encrypted_reasoning_in_what_a_summary_took_in_is_gone_once():
    """Our own count of the span leaves it out; when the user speaks, only the rest of the turn's is taken off."""
    line = Line(DROPS)
    items = [{"type": "message", "role": "user", "content": "go"}]

    def received():
        body = json.dumps({"model": "m", "input": items}).encode()
        return a_received(body=body, path="/v1/responses", caller=line.caller, recall=line.recall)

    for number, size in enumerate((300, 3000)):
        asked = received()
        ready = prepare(asked, line.memory(asked), line.policy, line.scale, now=1000.0 + number)
        usage = Usage(input_tokens=5000, output_tokens=size + 20, reasoning_tokens=size)
        line.answered(ready, an_observation("", usage=usage))
        items += [
            {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "fine"},
        ]
    inside = received()
    memory = line.memory(inside)

    assert told_reasoning(inside, memory) == {1: 300, 4: 3000}
    assert swallowed_reasoning(inside, memory, {1, 2, 3}, drops=True) == 300
    # The newest answer came after the measured call had been sent: it is in no count of it.
    assert swallowed_reasoning(inside, memory, {1, 2, 3, 4, 5}, drops=False) == 300
    assert left_reasoning(inside, memory, {1, 2, 3}, drops=True) == 3000
    ready = prepare(inside, memory, line.policy, line.scale, now=1010.0)
    line.answered(ready, an_observation("well?", usage=Usage(input_tokens=8500, output_tokens=20)))
    items += [{"type": "message", "role": role, "content": "well?"} for role in ("assistant", "user")]
    spoken = received()
    memory = line.memory(spoken)
    assert spent_reasoning(spoken, memory, 8, line.scale, 1.0, {1, 2, 3}) == 3000
    assert spent_reasoning(spoken, memory, 8, line.scale, 1.0, ()) == 3300
    assert left_reasoning(spoken, memory, {1, 2, 3}, drops=False) == 3000
    assert left_reasoning(spoken, memory, {1, 2, 3}, drops=True) == 0
