from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.edit import Plan, StripReasoning, Summarise
from proxy.conversation.fingerprint import prefix_keys, seed_key
from proxy.conversation.model import Reasoning, Text, ToolCall, last_words
from proxy.pruning.reasoning import (
    ReasoningPolicy,
    brings_reasoning,
    is_demanded,
    strip_edits,
)
from proxy.pruning.reasoning_rules import OPTIONAL, REFUSED, ReasoningRule
from tests.pruning.builders import a_message, result, user


def thought(text="hm", *, signed=False):
    return Reasoning(text=text, signed=signed)


def answer(*parts, text="done"):
    return a_message("assistant", *parts, *([Text(text=text)] if text else []))


def calling(call_id, *parts, **more):
    return a_message("assistant", *parts, ToolCall(call_id=call_id, name="read", arguments="{}", **more))


def stripped(messages, strip="all", *, rule=OPTIONAL, plan=Plan(), alone=False, model=""):  # noqa: B008  a value
    """Indices of the messages that lose their reasoning."""
    keys = prefix_keys(seed_key("test", "me"), messages)
    policy = ReasoningPolicy(strip=strip, rule=rule)
    edits = strip_edits(messages, keys, lambda index: 7, policy, model=model, plan=plan, alone=alone)
    assert all(edit.tokens_before == 7 for edit in edits)
    return [keys.index(edit.at) for edit in edits]


TWO_TURNS = [user(), answer(thought("a" * 400)), user(), answer(thought("b" * 800)), user()]


@pytest.mark.parametrize(("strip", "gone"), [("none", []), ("all_but_last", [1]), ("all", [1, 3])])
def test_r32_three_policies(strip, gone):
    assert stripped(TWO_TURNS, strip) == gone


OPEN_LOOP = [
    user(),
    answer(thought()),
    user(),
    calling("c1", thought("first")),
    result("c1", "x"),
    calling("c2", thought("second")),
    result("c2", "y"),
]


def test_the_open_turn_keeps_all_of_its_reasoning():
    assert stripped(OPEN_LOOP, "all") == [1]
    assert stripped(OPEN_LOOP, "all_but_last") == [1]
    assert stripped(OPEN_LOOP[3:], "all") == []


def test_the_last_turn_is_that_which_has_reasoning():
    assert stripped([*TWO_TURNS, answer(), user()], "all_but_last") == [1]


def test_no_message_becomes_empty():
    only = a_message("assistant", thought())
    blank = a_message("assistant", thought(), Text(text="  \n"))

    assert stripped([user(), only, user(), blank, user(), answer(thought()), user()]) == [5]


def test_reasoning_that_is_an_element_of_its_own_goes_as_one():
    item = a_message("assistant", thought())

    assert stripped([user(), item, answer(), user()], alone=True) == [1]
    assert stripped([item, answer(), user(), item, answer(), user()], alone=True) == [3]


def test_a_signed_turn_keeps_all_or_loses_all():
    only = a_message("assistant", thought(signed=True))
    turn = [user(), calling("c1", thought(signed=True)), result("c1", "x"), only, answer(thought(signed=True)), user()]

    assert stripped(turn) == []
    assert stripped([message for message in turn if message is not only]) == [1, 3]


PREFIX = "claude-opus-5-5"


def signed_turns(turns):
    return [message for _ in range(turns) for message in (user(), answer(thought(signed=True)))]


def test_where_signed_reasoning_that_stays_stands_behind_nothing_goes():
    closed, loop = signed_turns(2), [user(), calling("c1", thought(signed=True)), result("c1", "x")]

    assert stripped([*closed, user()], "all", model=PREFIX) == [1, 3]
    assert stripped([*closed, *loop], "all", model=PREFIX) == []
    assert stripped([*closed, user()], "all_but_last", model=PREFIX) == []
    assert stripped([*closed, user()], "all_but_last", model="m") == [1]
    assert stripped([*closed, user()], "all_but_last", model="m", rule=ReasoningRule(binds=True)) == []


@pytest.mark.parametrize(("demands", "gone"), [("", [1, 3]), ("open_calls", [1, 3]), ("calls", [3]), ("all", [])])
def test_what_the_provider_demands_stays(demands, gone):
    messages = [user(), calling("c1", thought()), result("c1", "x"), answer(thought()), user()]

    assert stripped(messages, rule=ReasoningRule(demands=demands)) == gone


def test_an_item_that_belongs_to_a_demanded_call_stays():
    item = a_message("assistant", thought())
    messages = [user(), item, calling("c1"), result("c1", "x"), item, answer(), user()]

    assert stripped(messages, rule=ReasoningRule(demands="calls"), alone=True) == [4]


def test_what_the_provider_keeps_stays():
    assert stripped(TWO_TURNS, rule=ReasoningRule(keeps=True)) == []


def test_where_the_provider_refuses_reasoning_all_goes_that_of_the_open_turn_too():
    assert stripped(OPEN_LOOP, "none", rule=REFUSED) == [1, 3, 5]
    assert stripped([*signed_turns(1), *OPEN_LOOP], "none", rule=REFUSED, model=PREFIX) == [1, 3, 5, 7]


def test_what_is_out_already_is_not_decided_again():
    keys = prefix_keys(seed_key("test", "me"), TWO_TURNS)
    summary = Summarise(
        first=keys[0], last=keys[1], text="s", reason="r", tokens_before=9, tokens_after=1, by_model=True
    )

    assert stripped(TWO_TURNS, plan=Plan((StripReasoning(at=keys[1], tokens_before=7),))) == [3]
    assert stripped(TWO_TURNS, plan=Plan((summary,))) == [3]


turns = st.lists(
    st.lists(st.sampled_from(["call", "thought call", "signed call", "answer", "signed answer", "only"]), max_size=4),
    min_size=1,
    max_size=5,
)


def history(shape):
    made = []
    for number, turn in enumerate(shape):
        made.append(user(f"turn {number}"))
        for step, kind in enumerate(turn):
            parts = (
                [] if kind in ("call", "answer") else [thought(f"{number} {step}", signed=kind.startswith("signed"))]
            )
            if kind.endswith("call"):
                made += [calling(f"c{number}{step}", *parts), result(f"c{number}{step}", "x")]
            else:
                made.append(answer(*parts, text="" if kind == "only" else f"said {number} {step}"))
    return made


@given(turns, st.sampled_from(["all", "all_but_last"]), st.sampled_from([PREFIX, "claude-sonnet-4-5", "gpt-6.2", "m"]))
def test_no_policy_ever_breaks_a_rule(shape, strip, model):
    messages = history(shape)
    gone = stripped(messages, strip, model=model)
    words = last_words(messages)

    assert all(number < words for number in gone)
    for number in gone:
        rest = [part for part in messages[number].parts if not isinstance(part, Reasoning)]
        assert rest
    if model == PREFIX and gone:
        left = [number for number, message in enumerate(messages) if signed(message) and number not in gone]
        assert all(number < min(gone) for number in left)


def signed(message):
    return any(isinstance(part, Reasoning) and part.signed for part in message.parts)


@given(turns)
def test_deciding_again_for_a_longer_history_never_gives_back(shape):
    """Sticky: what went stays away, whatever comes behind it."""
    messages = history(shape)
    keys = prefix_keys(seed_key("test", "me"), messages)
    plan = Plan()
    for end in range(1, len(messages) + 1):
        policy = ReasoningPolicy(strip="all")
        edits = strip_edits(messages[:end], keys[:end], lambda _: 1, policy, plan=plan)
        assert not {edit.at for edit in edits} & {edit.at for edit in plan.edits}
        plan = plan.with_edits(edits)

    assert {keys.index(edit.at) for edit in plan.edits} >= set(stripped(messages, "all"))


# What an answer must bring, and what it brings.


def test_demands_by_answer():
    messages = [*OPEN_LOOP[:3], *OPEN_LOOP[3:]]

    assert is_demanded(messages, range(1, 2), "all")
    assert is_demanded(messages, range(1, 2), "named")
    assert not is_demanded(messages, range(1, 2), "calls")
    assert is_demanded(messages, range(3, 4), "calls")
    assert is_demanded(messages, range(3, 4), "open_calls")
    assert not is_demanded([*messages, user()], range(3, 4), "open_calls")
    assert not is_demanded(messages, range(3, 4), "")


def test_an_answer_brings_its_reasoning_or_its_signature():
    bare, reasoned, marked = calling("c"), calling("c", thought()), calling("c", signed=True)
    wants_signatures = replace(OPTIONAL, signatures=True)

    assert not brings_reasoning([bare], range(1), OPTIONAL)
    assert brings_reasoning([reasoned], range(1), OPTIONAL)
    assert brings_reasoning([marked], range(1), OPTIONAL)
    assert not brings_reasoning([reasoned], range(1), wants_signatures)
    assert brings_reasoning([marked], range(1), wants_signatures)
