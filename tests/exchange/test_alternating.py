import pytest

from proxy.conversation.edit import StripReasoning, Summarise
from proxy.conversation.fingerprint import index_of, prefix_keys
from proxy.exchange.alternating import unbroken
from tests.builders import a_message

ROLES = ("user", "assistant", "user", "assistant", "tool", "assistant", "user")


def a_summary(keys, first, last):
    return Summarise(
        first=keys[first], last=keys[last], text="s", reason="", tokens_before=9, tokens_after=1, by_model=True
    )


@pytest.mark.parametrize(
    ("first", "last", "stays"),
    [
        (0, 0, True),
        (0, 2, True),
        (0, 4, True),
        (0, 6, True),
        (0, 1, False),
        (0, 5, False),
        (1, 2, False),
        (1, 4, False),
    ],
)
def test_a_summary_stands_where_the_model_speaks_behind_it_and_nothing_before_it(first, last, stays):
    messages = [a_message(role, f"{number}") for number, role in enumerate(ROLES)]
    keys = prefix_keys(b"seed", messages)
    summary = a_summary(keys, first, last)

    assert unbroken((summary,), messages, index_of(keys)) == ((summary,) if stays else ())


def test_edits_in_place_break_no_order():
    messages = [a_message(role, f"{number}") for number, role in enumerate(ROLES)]
    keys = prefix_keys(b"seed", messages)
    edit = StripReasoning(at=keys[1], tokens_before=1)

    assert unbroken((edit, a_summary(keys, 1, 2)), messages, index_of(keys)) == (edit,)
