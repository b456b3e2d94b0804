"""What goes: by the rules alone (`always`, `pressure`), and by price."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import Reasoning, Text, ToolCall, ToolResult
from proxy.pruning.plan import arrive, prune, under_pressure
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices
from tests.pruning.builders import (
    a_message,
    a_situation,
    answered,
    call,
    next_turn,
    places,
    result,
    rounds,
    taken_in,
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


@pytest.mark.parametrize(("results", "steps"), [(3, 0), (40, 9)])
def test_where_many_results_go_somebody_else_has_a_turn_in_between(results, steps):
    texts = [" ".join(f"module_{number}.name_{word}" for word in range(900)) for number in range(results)]
    situation = a_situation(answered(rounds(*texts)))

    taken = list(taken_in(prune.steps(situation, ALWAYS)))

    assert len(taken) - 1 == steps
    assert taken[-1] == prune(situation, ALWAYS)
    assert len(taken[-1].edits) == results - 1


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


def test_c18_the_walk_stops_at_a_summary():
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


# --------------------------------------------------------------------------------------------------------- priced

PRICES = Prices(read=0.1, write=1.25)
PRICED = PrunePolicy(protect_tokens=0, minimum_tokens=0, keep_share=0.1)


def code(number, tokens):
    """A text in which identifiers stand."""
    return (f"def handler_{number}(request): return make_{number}(request)\n" + "lorem ipsum " * tokens)[: tokens * 4]


def test_a_large_result_that_was_seen_once_goes_with_its_names_kept():
    situation = a_situation(answered(rounds(*(code(n, 3000) for n in range(6)))), prices=PRICES, expected_turns=30)

    edits = prune(situation, PRICED).edits

    assert places(edits, situation)[-1] == (12, 0)
    assert "handler_5" in edits[-1].text
    assert edits[-1].decided == len(situation.messages)


def test_names_that_stand_in_what_stays_are_not_kept_twice():
    messages = [user("look at handler_5"), *rounds(*(code(n, 3000) for n in range(6)))[1:]]
    edits = prune(a_situation(answered(messages), prices=PRICES, expected_turns=30), PRICED).edits

    assert "handler_5" not in edits[-1].text
    assert "make_5" in edits[-1].text


def test_nothing_goes_while_it_would_not_pay():
    situation = a_situation(answered(rounds(code(0, 300), code(1, 3000))), prices=PRICES, expected_turns=0)

    assert prune(situation, PrunePolicy(protect_tokens=40_000, minimum_tokens=0)).edits == ()
    assert prune(situation, PRICED).skipped == "would_not_pay"


def test_signed_reasoning_behind_a_result_keeps_it_on_models_that_check():
    thought = a_message("assistant", Reasoning(text="hm", signed=True), Text(text="done"))
    messages = [*rounds(code(0, 3000), code(1, 3000)), thought, user()]

    assert prune(a_situation(messages, model="claude-opus-5-5"), PRICED).skipped == "signed_reasoning"
    assert len(prune(a_situation(messages, model="claude-opus-4-8"), PRICED).edits) == 2


def test_what_an_edit_must_match_is_protected_four_times_as_long():
    messages = answered(rounds(*(code(n, 1000) for n in range(6))))
    policy = PrunePolicy(protect_tokens=4000, minimum_tokens=0, keep_share=0.1)
    reading = a_situation(messages, prices=PRICES, cold=True, tools=("read", "edit"))
    looking = a_situation(messages, prices=PRICES, cold=True, tools=("read",))

    assert len(prune(reading, policy).edits) == 2
    assert len(prune(looking, policy).edits) == 5


def test_a_report_of_failure_is_protected_as_long():
    failing = [f"FAILED test_{n}\n{code(n, 990)}" for n in range(6)]
    policy = PrunePolicy(protect_tokens=4000, minimum_tokens=0, keep_share=0.1)

    assert len(prune(a_situation(answered(rounds(*failing)), prices=PRICES, cold=True), policy).edits) == 2


def test_while_the_purse_is_empty_placeholders_keep_less():
    """A first large result may go although a full placeholder would cost more than one more reading."""
    text = " ".join(f"name_{n}_of_many" for n in range(4000))
    situation = a_situation(answered(rounds(text)), prices=PRICES, expected_turns=30)

    (thin,) = prune(situation, PrunePolicy(protect_tokens=0, minimum_tokens=0, keep_share=0.3)).edits
    (full,) = prune(
        msgspec.structs.replace(situation, cold=True), PrunePolicy(protect_tokens=0, minimum_tokens=0, keep_share=0.3)
    ).edits

    assert thin.tokens_after * PRICES.write < 1.1 * thin.tokens_before * PRICES.read
    assert full.tokens_after > 3 * thin.tokens_after


@pytest.mark.parametrize(
    ("minimum", "gone", "why"),
    [
        # Each of 1,000 tokens leaves 156 by what is reckoned with, and 22 in truth.
        (80, [2, 4, 6], ""),
        (400, [4, 6], ""),
        (1100, [6], ""),
        (2100, [], "would_not_pay"),
    ],
)
def test_what_placeholders_come_to_in_truth_leaves_enough_for_the_cache(minimum, gone, why):
    situation = a_situation(
        answered(rounds(*(words(str(n), 1000) for n in range(3)))),
        prices=Prices(read=0.1, write=1.0, minimum=minimum),
        cold=True,
        expected_turns=10,
    )
    decision = prune(situation, PRICED)

    assert [message for message, _ in places(decision.edits, situation)] == gone
    assert decision.skipped == why
    assert situation.total - sum(edit.tokens_before - edit.tokens_after for edit in decision.edits) >= minimum


def test_a_window_that_is_nearly_full_is_cleared_whatever_it_costs():
    situation = a_situation(
        answered(rounds(*(code(n, 1000) for n in range(9)))), prices=PRICES, expected_turns=0, window=10_000
    )

    assert len(prune(situation, PRICED).edits) == 9


@given(
    st.lists(st.tuples(st.integers(1, 4000), st.booleans()), min_size=1, max_size=14),
    st.sampled_from([0, 2000, 40_000]),
)
def test_a_line_keeps_its_laws_turn_after_turn(results, protect):
    """Sticky, nothing unseen, nothing twice, every edit smaller than what it replaces, the same input the same plan."""
    policy = PrunePolicy(protect_tokens=protect, minimum_tokens=0, keep_share=0.1)
    situation = a_situation([user()], prices=PRICES)
    for number, (tokens, again) in enumerate(results):
        text = code(0 if again else number, tokens)
        situation = next_turn(
            situation, (), call(f"c{number}", "read", f'{{"n":{number}}}'), result(f"c{number}", text)
        )
        for decide in (lambda s: arrive(s, ArrivePolicy()), lambda s: prune(s, policy).edits):
            edits = decide(situation)

            assert edits == decide(situation)
            assert all(edit.tokens_after < edit.tokens_before for edit in edits)
            where = places(edits, situation)
            assert len(set(where)) == len(where)
            arrived = {edit.kind for edit in edits} - {"clear"}
            assert all((message >= situation.seen) == bool(arrived) for message, _ in where)
            situation = next_turn(situation, edits)
    cleared = [(edit.at, edit.part) for edit in situation.plan.edits if edit.kind == "clear"]
    assert len(set(cleared)) == len(cleared)


def test_a_full_window_is_no_reason_to_break_the_cache_for_little():
    """What takes out less than a tenth of the window puts the summary off by some calls, and costs as much."""
    messages = answered(rounds(words("a", 900), *(words(str(n), 10) for n in range(3))))
    tokens = sum(a_situation(messages).message_tokens)
    prices = Prices(read=0.1, write=1.25)

    def pruned(window):
        return prune(a_situation(messages, window=window, prices=prices, expected_turns=1, total=8800), PRICED).edits

    assert tokens < 1000
    assert pruned(10_000) == ()
    assert len(pruned(8_900)) == 1
    assert len(pruned(8_700)) == 1
