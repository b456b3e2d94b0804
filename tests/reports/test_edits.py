import msgspec

from proxy.conversation.edit import Insert, Plan, Replace, RestoreReasoning, StripReasoning, Summarise
from proxy.ledger.originals import MOST_BYTES, an_original, original_id
from proxy.reports.edits import NOT_ASKED, NOT_KEPT, edits
from tests.builders import a_turn

PLAN = Plan(
    (
        Replace(
            at=b"\x01",
            part=0,
            kind="clear",
            text="[gone]",
            reason="older than the newest 40k",
            tool="read",
            tokens_before=500,
            tokens_after=20,
        ),
        Summarise(
            first=b"\x01",
            last=b"\x02",
            text="so far",
            reason="written by the model",
            tokens_before=900,
            tokens_after=50,
            by_model=True,
        ),
        Insert(after=b"\x03", text="and that", tokens_after=6, ids=("q1",)),
        StripReasoning(at=b"\x04", tokens_before=40),
        RestoreReasoning(at=b"\x05", payload="{}", tokens_after=30),
    )
)


def test_each_edit_is_shown_with_reason_tokens_and_what_stands_there_now():
    rows = edits(a_turn(turn=9), PLAN).edits

    assert [(row.kind, row.tool, row.tokens_before, row.tokens_after, row.saved_tokens) for row in rows] == [
        ("clear", "read", 500, 20, 480),
        ("summarise", "", 900, 50, 850),
        ("insert", "", 0, 6, -6),
        ("strip", "", 40, 0, 40),
        ("restore", "", 0, 30, -30),
    ]
    assert [row.after for row in rows] == ["[gone]", "so far", "and that", None, None]
    assert [row.at for row in rows] == ["01", "02", "03", "04", "05"]
    assert all(row.reason for row in rows)


def test_edits_are_told_in_the_providers_tokens():
    found = edits(a_turn(factor=0.5, removed_tokens=666), PLAN)

    assert [(row.tokens_before, row.tokens_after, row.saved_tokens) for row in found.edits][:2] == [
        (250, 10, 240),
        (450, 25, 425),
    ]


def test_each_edit_tells_the_call_that_decided_it_or_that_nobody_knows():
    dated = msgspec.structs.replace(PLAN.edits[0], turn=7)
    rows = edits(a_turn(turn=9), Plan((dated, PLAN.edits[1]))).edits

    assert [row.turn for row in rows] == [7, None]


REPLACED = (PLAN.edits[0], PLAN.edits[1], PLAN.edits[3])


def test_a_list_does_not_hold_what_stood_there_unless_that_is_asked_for():
    rows = edits(a_turn(), PLAN).edits

    assert {row.before for row in rows} == {None}
    assert [row.before_note for row in rows if row.kind in ("clear", "summarise", "strip")] == [NOT_ASKED] * 3
    assert {row.before_note for row in rows if row.kind in ("insert", "restore")} == {"nothing stood here"}


def test_what_stood_there_is_shown_where_it_is_kept_and_said_to_be_gone_where_it_is_not():
    long = an_original(original_id(REPLACED[1]), "x" * (MOST_BYTES + 100))
    kept = {one.id: one for one in (an_original(original_id(REPLACED[0]), "the file"), long)}
    rows = edits(a_turn(), PLAN, kept).edits

    assert [row.number for row in rows] == [1, 2, 3, 4, 5]
    assert (rows[0].before, rows[0].before_cut, rows[0].before_note) == ("the file", 0, "")
    assert (rows[1].before, rows[1].before_cut) == (long.text, 100)
    assert (rows[3].before, rows[3].before_note) == (None, NOT_KEPT)


def test_what_was_only_observed_is_told_from_what_was_sent():
    assert edits(a_turn(edits={}), PLAN).observed
    assert not edits(a_turn(edits={"clear": 1}), PLAN).observed
    assert not edits(a_turn(edits={}), Plan()).observed


def test_how_much_the_newest_call_left_out_is_told_whatever_the_edits_sum_up_to():
    assert edits(a_turn(removed_tokens=40_000), None).removed_tokens == 40_000
    assert edits(a_turn(would_remove_tokens=500), None).removed_tokens == 500


def test_a_plan_that_the_store_has_lost_is_not_an_empty_one():
    assert not edits(a_turn(), None).known
    assert edits(a_turn(), Plan()).known
