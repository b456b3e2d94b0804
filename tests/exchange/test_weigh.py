"""What a request weighs before any plan."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.conversation.edit import Insert, StripReasoning
from proxy.conversation.recall import Recall
from proxy.dialects.lens import apply_plan
from proxy.exchange.measure import standing_tokens
from proxy.exchange.weigh import Size, known_weights, results_in, results_under, weigh
from tests.builders import (
    a_clear,
    a_received,
    a_scale,
    a_summary,
    calls,
    count,
    plan_of,
    result,
    rounds,
    said,
    user,
    words,
)

HISTORY = rounds(*(words(str(number), 100) for number in range(5)))
LONGER = [*HISTORY, said("done"), user("next"), calls("z", tool="look"), result("z", words("z", 50))]


def test_all_messages_together_weigh_what_each_weighs():
    scale = a_scale()
    weighed = weigh(a_received(LONGER), scale)

    assert weighed.total == sum(weight.total for weight in weighed.weights)
    assert weighed.reasoning == 0
    assert len(weighed.weights) == len(LONGER)


def test_results_are_listed_with_their_weight_and_their_tool():
    weighed = weigh(
        a_received([user(), calls("a", tool="look"), result("a", words("a", 40)), result("b", "?")]), a_scale()
    )
    envelope = a_scale().overheads.result

    sizes = [size for some in weighed.sizes for size in some]

    assert sizes == [Size(40 + envelope, 2, 0, "look"), Size(count("?") + envelope, 3, 0, "?")]
    assert weighed.contents(2) == (40,)
    assert (weighed.content(2, 0), weighed.content(2, 1)) == (40, 0)


def test_without_results_nothing_is_listed():
    weighed = weigh(a_received([user("a"), said("b"), user("c")]), a_scale())

    assert weighed.sizes == ((), (), ())


def test_a_turn_carries_on_what_its_line_has_weighed_and_comes_to_the_same():
    recall, scale = Recall(), a_scale()
    for history in (HISTORY * 4, [*HISTORY * 4, *LONGER]):
        received = a_received(history, recall=recall)
        weighed = weigh(received, scale)
        results = results_in(received, weighed, scale)
    anew = a_received([*HISTORY * 4, *LONGER])

    assert known_weights(received.view, scale) == len(HISTORY * 4)
    assert weighed == replace(weigh(anew, scale), notes=weighed.notes)
    assert results == results_in(anew, weighed, scale)


def test_results_stand_as_the_plan_s_edits_have_left_them_also_where_the_line_has_had_the_plan():
    recall, scale = Recall(), a_scale()
    for history in (HISTORY * 4, [*HISTORY * 4, *LONGER], HISTORY * 5):
        received = a_received(history, recall=recall)
        other = a_clear(a_received([user("of another branch"), *LONGER]), 3)
        for plan in (
            plan_of(a_clear(received, 2), a_clear(received, 4, text="[cut]")),
            plan_of(a_clear(received, 2), other),
        ):
            found = results_under(received, weigh(received, scale), scale, plan)
            texts = [standing.text for some in found for standing in some]
            anew = a_received(history)

            assert texts[0] == "[gone]"
            assert found == results_under(anew, weigh(anew, scale), scale, plan)
            assert texts.count("[cut]") == (plan.edits[1] is not other)


def an_edit(kind, received, at, text):
    """An edit of the kind at message `at`, or at the result that stands next to it."""
    key = received.keys[at]
    match kind:
        case "insert":
            return Insert(after=key, text=text, tokens_after=3)
        case "strip":
            return StripReasoning(at=key, tokens_before=1)
        case "summary":
            return a_summary(received, max(0, at - 2), at, text=text)
        case _:
            results = [n for n, one in enumerate(received.conversation.messages) if one.role == "tool"]
            return a_clear(received, min(results, key=lambda n: abs(n - at)), text=text, after=len(text))


@given(st.data())
def test_whatever_is_told_under_a_plan_that_grows_is_what_is_told_under_all_of_it(data):
    """Of lines that add messages, lose some and send others, with the plans that they come from."""
    recall, scale, lines = Recall(), a_scale(), [(HISTORY, ())]
    for turn in range(data.draw(st.integers(1, 6))):
        history, edits = data.draw(st.sampled_from(lines))
        history = history[: data.draw(st.integers(1, len(history)))] if data.draw(st.booleans()) else history
        history = [*history, *rounds(words(f"n{turn}", 500), first=f"and {turn}")]
        received = a_received(history, recall=recall)
        for step in range(data.draw(st.integers(0, 3))):
            for kind in data.draw(
                st.lists(st.sampled_from(["clear", "clear", "insert", "strip", "summary"]), max_size=2)
            ):
                at = data.draw(st.integers(0, len(history) - 1))
                edits = (*edits, an_edit(kind, received, at, f"[{turn} {step}]"))
            plan, anew = plan_of(*edits), a_received(history)
            weighed, fresh = weigh(received, scale), weigh(anew, scale)
            dialect, view, keys = received.dialect, received.view, received.keys

            assert results_under(received, weighed, scale, plan) == results_under(anew, fresh, scale, plan)
            assert standing_tokens(weighed, plan) == standing_tokens(fresh, plan)
            assert apply_plan(dialect, view, keys, plan) == apply_plan(dialect, anew.view, keys, plan)
        lines.append((history, edits))
