"""What a model quotes, and whether it could still see it."""

from dataclasses import replace

import pytest

from proxy.conversation.edit import Summarise
from proxy.conversation.model import Message, ToolCall
from proxy.exchange.quoting import Sight, answered, quotable, regrets, texts_of
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from tests.exchange.test_rehearsal import EAGER, OFF, a_script, play
from tests.pruning.builders import call, result, user, words

SECRET = "src/engine/Valve.rs"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/app.py: line 1024.", {"src/app.py", "1024"}),
        ("call loadFile() or load_file, not LOAD", {"loadFile", "load_file"}),
        ("the 12 of a plain sentence, and/or so", {"and/or"}),
        ("id a1b2c3d4, version 3.11.2", {"a1b2c3d4"}),
    ],
)
def test_identifiers_are_paths_numbers_and_symbols(text, found):
    assert found <= quotable(text)
    assert not {"the", "plain", "sentence", "LOAD", "12"} & quotable(text)


def test_what_stands_nowhere_any_more_is_lost():
    sight = Sight()
    sight.show(1, f"{SECRET} has 4711 lines")
    sight.show(1, "4711 lines stood here", is_new=False)

    assert sight.lost([f"edit {SECRET} at 4711"]) == (2, 1)
    assert sight.lost(["something/never.seen"]) == (0, 0)


def test_a_part_of_a_longer_word_is_still_in_sight():
    sight = Sight()
    sight.show(1, "Valve.rs")
    sight.show(1, f"stood in {SECRET}", is_new=False)

    assert sight.lost(["Valve.rs"]) == (1, 0)


def a_session():
    """Three big results; the last answer names what only the first one said."""
    yield user("go")
    for number in range(3):
        yield call(f"c{number}", "read", "{}")
        yield result(f"c{number}", f"{words(str(number), 900)} {SECRET if number == 0 else ''} {words('x', 900)}")
    yield call("c9", "edit", f'{{"path":"{SECRET}"}}')
    yield result("c9", "ok")
    yield user("thanks")


def test_a_policy_that_takes_nothing_out_regrets_nothing():
    script = a_script(*a_session())

    assert regrets(script, play(script, OFF)) == 0


def test_an_answer_that_names_what_was_taken_out_is_regretted_once():
    script = a_script(*a_session())
    bare = (ArrivePolicy(), PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0, keep_share=0.0))

    assert regrets(script, play(script, bare)) == 1


@pytest.mark.parametrize(("record", "regretted"), [("steps in short", 1), (f"read {SECRET}", 0)])
def test_a_record_hides_all_that_it_covers_but_what_it_says_itself(record, regretted):
    script = a_script(*a_session())
    covers = {"first": script.keys[1], "last": script.keys[2], "text": record}
    edit = Summarise(**covers, reason="steps in short", tokens_before=1000, tokens_after=9, by_model=False)
    steps = [replace(step, edits=(edit,)) if step.end == 7 else step for step in play(script, OFF)]

    assert regrets(script, steps) == regretted


def test_each_step_comes_with_what_the_model_wrote_in_answer():
    script = a_script(*a_session())
    texts = [texts for _, texts in answered(script, play(script, EAGER), Sight())]

    assert texts == [["{}"], ["{}"], ["{}"], [f'{{"path":"{SECRET}"}}'], []]


def test_a_backslash_before_an_n_is_no_line_end():
    """Windows paths in call arguments: the backslash is the escaped one, not the n."""
    call = ToolCall(call_id="c", name="read", arguments=r'{"path": "C:\\new\\table.txt", "text": "one\ntwo"}')
    ((_, text),) = texts_of(Message(role="assistant", parts=(call,), digest=b"d"))

    assert text == '{"path": "C:\\new\\table.txt", "text": "one\ntwo"}'
