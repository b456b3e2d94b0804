"""What goes, by the rules alone (policies `always` and `pressure`)."""

import pytest

from proxy.conversation.model import Text, ToolCall, ToolResult
from proxy.pruning.plan import arrive, prune, under_pressure
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from tests.pruning.builders import (
    a_message,
    a_situation,
    answered,
    call,
    next_turn,
    places,
    result,
    rounds,
    user,
    words,
)

SEEDS = PrunePolicy(policy="always")
ALWAYS = PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0, keep_recent_tool_results=1, min_chars=100)


def test_six_results_of_ten_thousand_tokens_leave_twenty_thousand_which_is_not_more_than_the_minimum():
    situation = a_situation(answered(rounds(*(words(str(n), 10_000) for n in range(6)))))

    assert prune(situation, SEEDS).edits == ()
    assert prune(situation, SEEDS).skipped == "batch_below_minimum"


def test_of_seven_results_of_ten_thousand_tokens_the_three_oldest_go():
    situation = a_situation(answered(rounds(*(words(str(n), 10_000) for n in range(7)))))

    decision = prune(situation, SEEDS)

    assert places(decision.edits, situation) == [(2, 0), (4, 0), (6, 0)]
    assert sum(edit.tokens_before for edit in decision.edits) == 30_000


@pytest.mark.parametrize(("oldest", "gone"), [(20_000, 0), (20_001, 1)])
def test_the_minimum_must_be_exceeded(oldest, gone):
    situation = a_situation(answered(rounds(words("a", oldest), words("b", 40_000))))

    assert len(prune(situation, SEEDS).edits) == gone


def test_an_unseen_result_stays_however_large():
    situation = a_situation(rounds(words("a", 1_000), words("b", 60_000)))

    assert prune(situation, SEEDS).edits == ()


def test_all_parallel_results_behind_the_last_assistant_message_stay():
    calls = a_message("assistant", *(ToolCall(call_id=c, name="read", arguments="{}") for c in "abc"))
    situation = a_situation([user(), calls, *(result(c, words(c, 1000)) for c in "abc")])

    assert prune(situation, ALWAYS).edits == ()


def test_the_newest_results_stay_by_number():
    situation = a_situation(answered(rounds(*(words(str(n), 500) for n in range(4)))))

    assert places(prune(situation, ALWAYS).edits, situation) == [(2, 0), (4, 0), (6, 0)]


def test_the_walk_stops_at_a_summary():
    old, new = rounds(words("a", 500), words("b", 500)), rounds(words("c", 500), words("d", 500))
    summary = a_message("user", Text(text="summary"), summary_marked=True)
    situation = a_situation(answered([*old, summary, *new]))

    assert places(prune(situation, ALWAYS).edits, situation) == [(len(old) + 3, 0)]


def test_errors_fixed_results_protected_tools_and_short_results_stay():
    messages = [
        user(),
        *(call("e"), result("e", words("e", 500), is_error=True)),
        *(call("f"), result("f", words("f", 500), fixed=True)),
        *(call("p", "TodoWrite"), result("p", words("p", 500))),
        *(call("s"), result("s", "short")),
        *(call("x"), result("x", words("x", 500))),
        *(call("y"), result("y", words("y", 500))),
    ]
    situation = a_situation(answered(messages))

    assert places(prune(situation, ALWAYS).edits, situation) == [(10, 0)]


def test_turns_with_broken_pairing_stay():
    two = a_message("assistant", *(ToolCall(call_id=c, name="read", arguments="{}") for c in "ab"))
    orphan = result("nobody", words("o", 500))
    messages = [user(), two, result("a", words("a", 500)), orphan, *rounds(words("x", 500), words("y", 500))[1:]]
    situation = a_situation(answered(messages))

    assert places(prune(situation, ALWAYS).edits, situation) == [(5, 0)]


def test_results_of_one_parallel_turn_are_judged_one_by_one():
    calls = a_message("assistant", *(ToolCall(call_id=c, name="read", arguments="{}") for c in "abc"))
    together = a_message(
        "user",
        *(ToolResult(call_id=c, text=t) for c, t in (("a", words("a", 300)), ("b", "tiny!"), ("c", words("c", 300)))),
    )
    situation = a_situation(answered([user(), calls, together, call("n"), result("n", words("n", 300))]))

    assert places(prune(situation, ALWAYS).edits, situation) == [(2, 0), (2, 2)]


def test_results_of_the_last_user_turns_stay_when_asked_for():
    messages = answered([*rounds(words("a", 500), words("b", 500)), *rounds(words("c", 500), words("d", 500))])
    situation = a_situation(messages)
    policy = PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0, protect_user_turns=1)

    assert places(prune(situation, policy).edits, situation) == [(2, 0), (4, 0)]


def test_what_is_gone_is_not_touched_again_and_the_same_request_gives_the_same_edits():
    situation = a_situation(answered(rounds(*(words(str(n), 500) for n in range(3)))))
    first = prune(situation, ALWAYS).edits
    later = next_turn(situation, first, user())

    assert prune(situation, ALWAYS).edits == first
    assert prune(later, ALWAYS).edits == ()


def test_a_batch_can_be_given_a_least_size_in_characters():
    situation = a_situation(answered(rounds(words("a", 500), words("b", 500), words("c", 500))))
    policy = PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0, batch_min_chars=6_001)

    assert prune(situation, policy).skipped == "batch_below_minimum"


def test_protection_and_minimum_shrink_with_the_window():
    situation = a_situation(answered(rounds(*(words(str(n), 2_500) for n in range(10)))), window=32_000)

    assert len(prune(situation, SEEDS).edits) == 8


def test_pressure_acts_only_when_the_window_fills():
    situation = a_situation(
        answered(rounds(*(words(str(n), 10_000) for n in range(8)))), window=200_000, reserve=60_000
    )
    policy = PrunePolicy(policy="pressure")

    assert prune(situation, policy).edits == ()
    tight = a_situation(situation.messages, window=200_000, reserve=80_000)
    assert len(prune(tight, policy).edits) == 4
    assert prune(tight, policy).pressed


@pytest.mark.parametrize(
    ("total", "before", "pressed"), [(949, False, False), (951, False, True), (900, True, True), (840, True, False)]
)
def test_pressure_holds_until_it_falls_below_release(total, before, pressed):
    situation = a_situation([user()], total=total, window=1000, pressed=before)

    assert under_pressure(situation, PrunePolicy(engage=0.95, release=0.85)) is pressed


def test_an_unseen_result_equal_to_one_that_stands_becomes_a_reference_to_it():
    text = words("same", 500)
    situation = a_situation(rounds(text, words("other", 500), text))

    (edit,) = arrive(situation, ArrivePolicy())

    assert places([edit], situation) == [(6, 0)]
    assert edit.of == situation.keys[2]
    assert edit.tokens_after < 40


def test_a_disabled_arrival_edits_nothing():
    text = words("same", 500)

    assert arrive(a_situation(rounds(text, text)), ArrivePolicy(enabled=False)) == ()
