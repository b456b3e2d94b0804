"""What never changes about a result."""

import pytest
from msgspec.structs import replace

from proxy.conversation.edit import Replace
from proxy.conversation.model import ToolCall
from proxy.conversation.pairing import pairs
from proxy.pruning.results import edited, replacements, results_of
from tests.pruning.builders import a_message, a_situation, call, result, user


def results(messages):
    situation = a_situation(messages)
    return results_of(pairs(messages), messages, situation.keys, situation.parts_tokens)


def test_a_result_knows_its_call_and_how_many_stand_beside_it():
    two = a_message("assistant", *(ToolCall(call_id=c, name="read", arguments="{}") for c in "ab"))

    first, second = results([user(), two, result("a", "12345678"), result("b", "1")])

    assert (first.message, first.call_message, first.calls, first.tokens, first.tool) == (2, 1, 2, 2, "read")
    assert (second.message, second.call_message, second.calls, second.tokens) == (3, 1, 2, 1)
    assert first.key != second.key


def test_an_orphan_has_no_call():
    (orphan,) = results([user(), result("a", "1")])

    assert (orphan.call, orphan.made, orphan.call_message, orphan.calls) == (None, None, -1, -1)


@pytest.mark.parametrize("arguments", ["[" * 900 + "]" * 900, '{"a":' * 300 + "1" + "}" * 300, "not JSON", "\ud800"])
def test_arguments_that_cannot_be_put_in_order_are_told_apart_as_they_are(arguments):
    first, again, other = results(
        [
            *(call("1", "f", arguments), result("1", "x")),
            *(call("2", "f", arguments), result("2", "x")),
            *(call("3", "f", arguments + " "), result("3", "x")),
        ]
    )

    assert first.made == again.made
    assert first.made != other.made


def test_the_order_of_arguments_makes_no_other_call():
    first, again, other = results(
        [
            *(call("1", "f", '{"a":1,"b":2}'), result("1", "x")),
            *(call("2", "f", '{"b":2, "a":1}'), result("2", "x")),
            *(call("3", "g", '{"a":1,"b":2}'), result("3", "x")),
        ]
    )

    assert first.made == again.made
    assert first.made != other.made


def test_an_edited_result_has_the_edits_text_and_weight_and_all_else_as_before():
    (whole,) = results([call("1"), result("1", "a long text")])
    edit = Replace(
        at=whole.key, part=0, kind="clear", text="gone", reason="", tool="read", tokens_before=3, tokens_after=1
    )

    left = whole.edited(edit)

    assert (left.text, left.tokens, left.gone) == ("gone", 1, True)
    assert left._replace(tokens=whole.tokens, edit=None) == whole
    # The one decided last counts.
    assert edited([whole], replacements([replace(edit, text="more"), edit])) == (left,)
    assert edited([whole], replacements([replace(edit, part=1)])) == (whole,)
