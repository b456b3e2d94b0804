from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.steps import at_once
from proxy.tokens.pieces import PIECE_CHARS, counted, pieces


@given(text=st.text(max_size=300), size=st.integers(2, 40))
def test_pieces_join_to_the_text_and_are_bounded(text, size):
    found = list(pieces(text, size))

    assert "".join(found) == text
    assert all(len(piece) <= size for piece in found)


def test_long_texts_are_counted_with_a_turn_for_others_between_their_pieces():
    text = "some words " * PIECE_CHARS

    turns = list(counted(text, len))

    assert len(turns) + 1 == len(list(pieces(text)))
    assert at_once(counted(text, len)) == len(text)


def test_a_short_text_is_counted_at_one_go():
    assert not list(counted("some words", len))
    assert at_once(counted("", len)) == 0
