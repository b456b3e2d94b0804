"""Which results may go, by their age and by the rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.edit import EMPTY_PLAN, Plan, Replace, Summarise
from proxy.conversation.model import Message, ToolCall, ToolResult
from proxy.pruning.ages import Ages, Protection
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.results import Standing
from proxy.pruning.standing import is_protected, results_by_message, standing_results
from tests.pruning.builders import a_message, a_situation, answered, call, result, rounds, user, words

FREE = PrunePolicy(protect_tokens=0, minimum_tokens=0)


def may_go(situation, protection, policy=FREE, ages=None):
    """The messages of the results that may."""
    return [standing.message for standing in (ages or Ages()).replaceable(situation, protection, policy)]


def old(messages, protect=10**9, policy=FREE, **more):
    """Messages whose results may go although nothing is old by its age."""
    return may_go(a_situation(answered(messages), **more), Protection(protect, protect), policy)


def test_c24_a_read_that_was_made_again_is_old_at_any_age_and_the_order_of_arguments_does_not_count():
    messages = [
        user(),
        *(call("1", "read", '{"path":"a","from":1}'), result("1", words("a", 100))),
        *(call("2", "read", '{"path":"b"}'), result("2", words("b", 100))),
        *(call("3", "read", '{"from":1, "path":"a"}'), result("3", words("c", 100))),
    ]

    assert old(messages) == [2]
    assert old(messages, policy=PrunePolicy(dedupe=False)) == []


def test_c24_the_same_arguments_of_another_tool_supersede_nothing():
    messages = [user(), call("1", "read"), result("1", words("a", 99)), call("2", "list"), result("2", words("b", 99))]

    assert old(messages) == []


def test_c24_the_result_of_a_protected_tool_is_never_superseded():
    messages = [user(), call("1", "todo_write"), result("1", words("a", 99)), call("2", "todo_write"), result("2", "b")]

    assert old(messages) == []
    assert old(messages, policy=PrunePolicy(protect_tokens=0, minimum_tokens=0, protected_tools=())) == [2]


def test_a_failed_second_call_supersedes_nothing():
    messages = [user(), call("1"), result("1", words("a", 99)), call("2"), result("2", words("b", 99), is_error=True)]

    assert old(messages) == []


def test_arguments_that_are_not_json_are_compared_as_they_are():
    messages = [
        user(),
        call("1", "f", "ls \ud800"),
        result("1", words("a", 99)),
        call("2", "f", "ls \ud800"),
        result("2", words("b", 99)),
    ]

    assert old(messages) == [2]


def test_what_a_young_reference_points_to_is_as_young():
    messages = rounds(words("a", 100), words("b", 100), words("a", 100), words("c", 100))
    plain = a_situation(answered(messages))
    pointer = Replace(
        at=plain.keys[6], part=0, kind="repeat", text="[as above]", reason="", tool="read", tokens_before=100,
        tokens_after=3, of=plain.keys[2],
    )  # fmt: skip
    situation = a_situation(answered(messages), Plan((pointer,)))

    assert may_go(situation, Protection(103, 103)) == [4]
    assert may_go(situation, Protection(99, 99)) == [2, 4, 8]


def test_what_another_line_has_superseded_stands_in_this_one():
    first = rounds(words("a", 100))
    theirs = [*first, call("x"), result("x", words("b", 100)), call("y"), result("y", words("c", 100))]
    ours = answered([*first, call("z", arguments="{}"), result("z", words("a", 100))])
    keys = a_situation(ours).keys
    pointer = Replace(
        at=keys[4], part=0, kind="repeat", text="[as above]", reason="", tool="read", tokens_before=100,
        tokens_after=3, of=keys[2],
    )  # fmt: skip
    ages = Ages()

    assert may_go(a_situation(answered(theirs)), Protection(200, 200), ages=ages) == [2, 4]
    assert may_go(a_situation(ours, Plan((pointer,))), Protection(10, 10), ages=ages) == []
    assert may_go(a_situation(ours), Protection(110, 110), ages=ages) == [2]


def test_what_is_needed_word_for_word_is_protected_longer():
    messages = rounds(*(words(label, 100) for label in "abcd"))
    situation = a_situation(answered(messages))
    protection = Protection(150, 350, lambda standing: standing.message == 4)

    assert may_go(situation, protection) == [2, 6]
    assert may_go(situation, protection._replace(most=250)) == [2, 4, 6]


def test_as_many_tokens_as_are_protected_do_not_make_old_and_part_of_one_more_does():
    situation = a_situation(answered(rounds(*(words(label, 100) for label in "ab"))))

    assert [may_go(situation, Protection(tokens, tokens)) for tokens in (99.5, 100, 100.5)] == [[2, 4], [2], [2]]


def test_the_newest_results_are_kept_where_the_policy_says_so():
    messages = rounds(*(words(label, 100) for label in "abc"))
    situation = a_situation(answered(messages))
    keeps_two = PrunePolicy(keep_recent_tool_results=2)

    assert may_go(situation, Protection(0, 0), keeps_two) == [2]
    assert may_go(situation, Protection(0, 0), FREE) == [2, 4, 6]


def plainly(situation, protection, policy) -> list[Standing]:
    """What `Ages` gives, with every result looked at again."""
    results = standing_results(situation)
    behind, old = 0, set()
    for position in range(len(results) - 1, -1, -1):
        behind += results[position].tokens
        is_long = behind <= protection.most and protection.literal(results[position])
        if (behind > protection.least and not is_long) or (policy.dedupe and _comes_again(results, position)):
            old.add(position)
    edits = [(results[position].edit, position in old) for position in range(len(results))]
    referred = {(edit.of, edit.of_part) for edit, is_old in edits if edit and edit.of and not is_old}
    asked = [n for n, message in enumerate(situation.messages) if message.role == "user"]
    turns = policy.protect_user_turns
    limit = min(situation.seen, (asked[-turns] if len(asked) >= turns else 0) if turns else len(situation.messages))
    return [
        standing
        for position, standing in enumerate(results)
        if position in old
        and (standing.key, standing.part) not in referred
        and position < len(results) - policy.keep_recent_tool_results
        and standing.message < limit
        and not (standing.gone or standing.broken or standing.result.is_error or standing.result.fixed)
        and (len(standing.text) > policy.min_chars or standing.result.media)
        and not is_protected(standing.tool, policy.protected_tools)
    ]


def _comes_again(results, position):
    made = results[position].made
    later = results[position + 1 :]
    return made is not None and any(one.made == made and one.edit is None and not one.result.is_error for one in later)


def rarely(draw) -> bool:
    return draw(st.integers(0, 5)) == 5


@st.composite
def steps(draw) -> list[Message]:
    """One or more calls, and their results: some are missing, some come twice, some answer nobody."""
    ids = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=not rarely(draw)))
    made = [
        ToolCall(call_id=one, name=draw(st.sampled_from(["read", "todo_write"])), arguments=draw(st.sampled_from("xy")))
        for one in ids
    ]
    texts = st.builds(words, st.sampled_from("abc"), st.sampled_from([40, 60, 20, 1]))
    found = [
        ToolResult(call_id=one, text=draw(texts), is_error=rarely(draw), fixed=rarely(draw))
        for one in (draw(st.lists(st.sampled_from([*ids, "z"]), max_size=4)) if rarely(draw) else ids)
    ]
    together = draw(st.booleans())
    messages = [a_message("tool", *found)] if together and found else [a_message("tool", one) for one in found]
    more = [user()] if rarely(draw) else []
    return [a_message("assistant", *made), *messages, *more]


@st.composite
def edits(draw, situation) -> tuple[Replace, ...]:
    """New edits of some results; one may point to another."""
    standing = standing_results(situation)
    if not standing:
        return ()
    chosen = draw(st.lists(st.sampled_from(standing), max_size=3, unique_by=lambda one: (one.message, one.part)))
    found = []
    for one in chosen:
        to = draw(st.sampled_from([None, None, *standing]))
        found.append(
            Replace(
                at=one.key, part=one.part, kind=draw(st.sampled_from(["clear", "cap", "repeat"])),
                text=words("e", draw(st.integers(0, 60))), reason="", tool="", tokens_before=one.tokens,
                tokens_after=draw(st.integers(0, 30)), of=to.key if to else b"", of_part=to.part if to else 0,
            )
        )  # fmt: skip
    return tuple(found)


PROTECTIONS = [
    Protection(0, 0),
    Protection(30, 100, lambda standing: "a" in standing.text[:1]),
    Protection(59.5, 59.5),
    Protection(60, 100.5, lambda standing: standing.message % 2 == 0),
    Protection(80, 10, lambda standing: standing.message % 2 == 0),
]
POLICIES = [
    PrunePolicy(min_chars=20),
    PrunePolicy(min_chars=100, dedupe=False, keep_recent_tool_results=2),
    PrunePolicy(min_chars=0, protected_tools=(), protect_user_turns=2),
]


@given(st.data())
def test_an_account_that_goes_on_says_what_one_says_that_is_begun_anew(data):
    """Over turns that add, forks that take back, summaries, and plans that grow or are another line's."""
    ages, lines = Ages(), [([user()], EMPTY_PLAN)]
    protection, policy = data.draw(st.sampled_from(PROTECTIONS)), data.draw(st.sampled_from(POLICIES))
    for _ in range(data.draw(st.integers(2, 10))):
        messages, plan = data.draw(st.sampled_from([*lines, *lines[-1:] * 10]))
        if rarely(data.draw):
            messages = messages[: data.draw(st.integers(1, len(messages)))]
        messages = [*messages, *(one for step in data.draw(st.lists(steps(), min_size=1, max_size=3)) for one in step)]
        before = a_situation(messages, plan)
        plan = plan.with_edits(data.draw(edits(before)))
        if rarely(data.draw):
            last = before.keys[data.draw(st.integers(0, len(messages) - 1))]
            summary = Summarise(
                first=before.keys[0], last=last, text="", reason="", tokens_before=1, tokens_after=1, by_model=False
            )
            plan = plan.with_edits((summary,))
        if rarely(data.draw):
            protection, policy = data.draw(st.sampled_from(PROTECTIONS)), data.draw(st.sampled_from(POLICIES))
        situation = a_situation(messages, plan, seen=len(messages) - data.draw(st.integers(0, 3)))
        known = a_situation(messages, plan, seen=situation.seen, results=results_by_message(situation))
        expected = [one._replace(broken=False) for one in plainly(situation, protection, policy)]

        assert ages.replaceable(known, protection, policy) == expected
        assert Ages().replaceable(situation, protection, policy) == expected
        lines.append((messages, plan))


def test_a_turn_looks_only_at_what_is_new_in_it():
    looked = []
    protection = Protection(0, 0, lambda standing: bool(looked.append(standing.message)))
    ages, messages = Ages(), rounds(*(words(str(n), 100) for n in range(5)))
    may_go(a_situation(messages), protection, ages=ages)
    may_go(a_situation(answered([*messages, call("n"), result("n", words("n", 100))])), protection, ages=ages)

    assert looked == [2, 4, 6, 8, 10, 12]


def test_an_account_that_tripped_on_its_way_is_begun_anew():
    messages = rounds(*(words(f"{number}", 500) for number in range(8)))
    before, after = a_situation(messages[:9]), a_situation(answered(messages))
    ages, looked_at = Ages(), []

    def literal(standing):
        looked_at.append(standing)
        if len(looked_at) == 7:
            raise KeyError("ours")
        return False

    protection = Protection(2600, 2600, literal)
    may_go(before, protection, ages=ages)
    with pytest.raises(KeyError):
        may_go(after, protection, ages=ages)

    assert may_go(after, protection, ages=ages) == may_go(after, protection) == [2, 4, 6]
