import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.compaction.prompt import HEADINGS
from proxy.compaction.summary import bare, judge, pinned_facts, standing_text


def verdict(summary="## Goal\nwork", *, finished=True, before=120_000, after=40_000, **more):
    return judge(summary, finished=finished, before_tokens=before, after_tokens=after, **more)


@pytest.mark.parametrize(
    ("after", "accepted"),
    [(121_000, False), (119_000, False), (96_001, False), (96_000, True), (40_000, True)],
)
def test_c53_a_summary_must_make_the_history_a_fifth_smaller(after, accepted):
    found = verdict(after=after)

    assert found.accepted is accepted
    assert found.reason == ("" if accepted else "not_smaller")


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_summary_is_none(text):
    assert verdict(text).reason == "empty"


def test_a_summary_that_was_cut_is_none():
    assert verdict(finished=False).reason == "unfinished"


def test_missing_headings_lower_the_score_and_no_more():
    assert verdict("just words").accepted
    assert verdict("just words").headings == 0
    assert verdict("\n".join(HEADINGS).upper()).headings == 1


def test_canaries_are_the_share_of_pinned_facts_that_are_still_there():
    assert verdict("src/a.py is done", pinned=("src/a.py", "E1234")).canaries == 0.5
    assert verdict(pinned=()).canaries == 1.0


def test_the_record_says_what_it_is_and_that_newer_messages_follow():
    text = standing_text("  what was  ", "", (), ())

    assert text.startswith("Record of this conversation")
    assert text.endswith("\n\nwhat was")


def test_the_users_words_the_names_and_the_newest_request_stand_behind_it():
    text = standing_text("done", "do this now", ("never push",), ("src/a.py",))

    assert text.index("done") < text.index("- never push") < text.index("src/a.py") < text.index("do this now")


@given(st.text("ab \n", min_size=1).filter(str.strip), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_standing_text_gives_back_the_bare_record(summary, quoted, kept, named, told):
    quote, said, names = "q" if quoted else "", ("k",) if kept else (), ("n",) if named else ()
    text = standing_text(summary, quote, said, names, "t" if told else "")

    assert bare(text) == summary.strip()


def test_at_most_so_many_facts_are_pinned():
    assert pinned_facts("text", lambda _: [str(n) for n in range(50)], 3) == ("0", "1", "2")
