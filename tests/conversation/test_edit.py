import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.edit import (
    EMPTY_PLAN,
    Insert,
    Plan,
    Replace,
    RestoreReasoning,
    StripReasoning,
    Summarise,
    decode_plan,
    edits_of,
    kind_of,
    saved_tokens,
    storable,
)

keys = st.binary(min_size=16, max_size=16)
counts = st.integers(0, 10**6)
texts = st.text(st.characters(exclude_categories=("Cs",)))
edits = st.one_of(
    st.builds(
        Replace,
        at=keys,
        part=st.integers(0, 9),
        kind=st.sampled_from(["clear", "repeat", "cap", "ansi", "collapse"]),
        text=texts,
        reason=texts,
        tool=texts,
        tokens_before=counts,
        tokens_after=counts,
        of=st.one_of(st.just(b""), keys),
    ),
    st.builds(
        Summarise,
        first=keys,
        last=keys,
        text=texts,
        reason=texts,
        tokens_before=counts,
        tokens_after=counts,
        by_model=st.booleans(),
    ),
    st.builds(Insert, after=keys, text=texts, tokens_after=counts),
    st.builds(StripReasoning, at=keys, tokens_before=counts),
    st.builds(RestoreReasoning, at=keys, payload=texts, tokens_after=counts),
)
plans = st.lists(edits, max_size=6).map(lambda found: Plan(tuple(found)))


@given(st.lists(edits))
def test_the_edits_of_one_type_keep_their_order(some):
    for kind in (Replace, Summarise, Insert, StripReasoning, RestoreReasoning):
        assert edits_of(some, kind) == [edit for edit in some if isinstance(edit, kind)]


@given(plan=plans)
def test_a_plan_is_read_back_as_it_was_stored(plan):
    assert decode_plan(plan.encoded()) == plan
    assert decode_plan(plan.encoded()).encoded() == plan.encoded()


@given(plan=plans, new=st.lists(edits, max_size=3).map(tuple))
def test_new_edits_stand_behind_the_old_ones(plan, new):
    grown = plan.with_edits(new)

    assert grown.edits == (*plan.edits, *new)
    assert (grown is plan) == (not new)


@given(one=plans, other=plans)
def test_a_plans_id_is_its_content(one, other):
    assert (one.plan_id() == other.plan_id()) == (one == other)
    assert len(one.plan_id()) == (16 if one.edits else 0)


def test_the_empty_plan_has_no_id():
    assert EMPTY_PLAN.plan_id() == b""


@pytest.mark.parametrize(
    "stored", [b"", b"\xc1", b"\x81\xa5edits\x07", msgspec.msgpack.encode({"edits": [{"type": "unknown"}]})]
)
def test_what_is_no_plan_is_refused(stored):
    with pytest.raises(msgspec.DecodeError):
        decode_plan(stored)


def test_each_edit_says_what_it_saves_and_how_it_is_called():
    replace = Replace(at=b"", part=0, kind="cap", text="", reason="", tool="", tokens_before=90, tokens_after=20)
    summary = Summarise(first=b"", last=b"", text="", reason="", tokens_before=900, tokens_after=200, by_model=False)
    others = [Insert(after=b"", text="", tokens_after=7), StripReasoning(at=b"", tokens_before=8)]
    restore = RestoreReasoning(at=b"", payload="", tokens_after=9)

    assert [(kind_of(edit), saved_tokens(edit)) for edit in (replace, summary, *others, restore)] == [
        ("cap", 70),
        ("summarise", 700),
        ("insert", -7),
        ("strip", 8),
        ("restore", -9),
    ]


@pytest.mark.parametrize("text", ["cut in two \ud83d", "\udfff at first", "whole 😀", "plain"])
def test_an_edit_can_be_stored_whatever_text_it_was_made_from(text):
    summary = Summarise(first=b"a", last=b"b", text=text, reason="", tokens_before=9, tokens_after=1, by_model=True)
    plan = Plan((storable(summary), storable(StripReasoning(at=b"c", tokens_before=5))))

    assert decode_plan(plan.encoded()) == plan
    assert plan.edits[0].text == text.replace("\ud83d", "?").replace("\udfff", "?")
