from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.edit import Insert, RestoreReasoning, StripReasoning
from proxy.ledger.originals import MOST_BYTES, an_original, original_id
from tests.builders import a_clear, a_received, a_summary, rounds


def test_edits_of_one_result_have_one_original_and_other_places_have_others():
    received = a_received(rounds("one", "two"))
    again = a_clear(received, 2, text="[other]", before=7)
    places = {
        original_id(edit)
        for edit in (
            a_clear(received, 2),
            a_clear(received, 4),
            a_summary(received, 0, 2),
            a_summary(received, 0, 4),
            StripReasoning(at=received.keys[2], tokens_before=5),
        )
    }

    assert original_id(again) == original_id(a_clear(received, 2))
    assert len(places) == 5
    assert {len(place) for place in places} == {16}


def test_what_was_put_in_has_no_original():
    assert original_id(Insert(after=b"k", text="hi", tokens_after=1)) == b""
    assert original_id(RestoreReasoning(at=b"k", payload="{}", tokens_after=1)) == b""


def test_a_text_within_the_bound_stays_whole():
    text = "ä" * (MOST_BYTES // 2)

    assert an_original(b"p", text).text == text
    assert an_original(b"p", text).cut_chars == 0


def test_a_longer_text_keeps_head_and_tail_and_says_how_much_is_gone():
    text = "HEAD" + "ü" * 100_000 + "TAIL"
    kept = an_original(b"p", text)

    assert kept.text.startswith("HEAD")
    assert kept.text.endswith("TAIL")
    assert f"… {kept.cut_chars:,} characters not kept …" in kept.text
    assert kept.cut_chars + kept.text.count("ü") + 8 == len(text)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=300), st.integers(0, 200))
def test_whatever_stands_there_is_bounded_and_can_be_written_as_utf8(text, most_bytes):
    kept = an_original(b"p", text, most_bytes)

    assert len(kept.text.encode()) <= most_bytes + (60 if kept.cut_chars else 0)
    assert 0 <= kept.cut_chars <= len(text)
