"""Which results stand."""

import pytest

from proxy.conversation.edit import Plan, Replace, Summarise
from proxy.conversation.model import Text, ToolCall, ToolResult
from proxy.conversation.pairing import paired
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.results import edited, replacements, results_of
from proxy.pruning.standing import behind_marked, is_protected, standing_results
from tests.pruning.builders import a_message, a_situation, answered, call, result, rounds, user, words


def test_results_that_are_known_already_stand_as_those_that_are_looked_at_anew():
    two = a_message("assistant", *(ToolCall(call_id=c, name="read", arguments="{}") for c in "ab"))
    answer = a_message("tool", ToolResult(call_id="a", text=words("a", 99)))
    messages = answered([*rounds(words("a", 100), words("b", 50)), two, answer, result("z", "of nobody")])
    plain = a_situation(messages)
    edit = Replace(
        at=plain.keys[2], part=0, kind="cap", text="short", reason="", tool="read", tokens_before=100, tokens_after=2
    )
    found = [results_of(own, messages, plain.keys, plain.parts_tokens) for own in paired(messages)]
    known = [edited(own, replacements((edit,))) for own in found]
    anew = standing_results(a_situation(messages, Plan((edit,))))

    found = standing_results(a_situation(messages, Plan((edit,)), results=known))

    assert found == anew
    assert [(s.message, s.tokens, s.broken) for s in found] == [
        (2, 2, False),
        (4, 50, False),
        (6, 99, True),
        (7, 3, True),
    ]


@pytest.mark.parametrize("since", [1, 3, 4, 6])
@pytest.mark.parametrize("ids", ["abc", "aba", ("", "", "")])
def test_so_do_those_from_a_message_on_also_where_their_calls_stand_before_it(ids, since):
    turns = [(call(one, arguments=f"[{at}]"), result(one, words("a", 9 + at))) for at, one in enumerate(ids)]
    messages = [user(), *(message for turn in turns for message in turn)]
    plain = a_situation(messages)
    known = [results_of(own, messages, plain.keys, plain.parts_tokens) for own in paired(messages)]

    found = standing_results(a_situation(messages, results=known), since)
    anew = standing_results(plain, since)

    assert [(s.message, s.tokens, s.broken) for s in found] == [(s.message, s.tokens, s.broken) for s in anew]
    assert [s.made for s in found if not s.broken] == [s.made for s in anew if not s.broken]


def test_results_before_a_summary_of_ours_are_settled():
    messages = answered(rounds(words("a", 100), words("b", 100), words("c", 100)))
    keys = a_situation(messages).keys
    summary = Summarise(
        first=keys[0], last=keys[2], text="s", reason="", tokens_before=1, tokens_after=1, by_model=False
    )
    situation = a_situation(messages, Plan((summary,)))

    assert [standing.message for standing in standing_results(situation)] == [4, 6]


def test_a_shortened_result_may_still_go_and_weighs_what_is_left_of_it():
    messages = answered(rounds(words("a", 1000), words("b", 10)))
    keys = a_situation(messages).keys
    edit = Replace(
        at=keys[2],
        part=0,
        kind="cap",
        text=words("a", 300),
        reason="",
        tool="read",
        tokens_before=1000,
        tokens_after=300,
    )
    situation = a_situation(messages, Plan((edit,)))

    capped, _ = standing_results(situation)

    assert capped.tokens == 300
    assert capped.text == words("a", 300)
    assert not capped.gone


def test_a_turn_with_a_missing_result_is_broken():
    two = a_message("assistant", *(ToolCall(call_id=c, name="read", arguments="{}") for c in "ab"))
    answer = a_message("tool", ToolResult(call_id="a", text=words("a", 99)))

    (standing,) = standing_results(a_situation([user(), two, answer]))

    assert standing.broken


@pytest.mark.parametrize(
    ("tool", "is_on_it"),
    [("TodoWrite", True), ("write_todos", True), ("plan-exit", True), ("AskUserQuestion", True), ("ask_agent", False)],
)
def test_protected_tools_are_compared_without_case_and_marks(tool, is_on_it):
    assert is_protected(tool, PrunePolicy().protected_tools) is is_on_it


def test_what_lies_behind_a_clients_summary_is_told_message_by_message():
    history = [a_message("user", Text(text="x"), summary_marked=marked) for marked in (False, True, False, True, False)]

    assert behind_marked(history) == [0, 2, 2, 4, 4]
    assert behind_marked(history, [0, 2, 2]) == [4, 4]
