from proxy.conversation.edit import EMPTY_PLAN, Plan
from proxy.conversation.lines import Notes
from proxy.exchange.decided import dated, new_edits, plan_id
from tests.builders import a_clear, a_received, a_summary, plan_of, rounds, words

RECEIVED = a_received(rounds(*(words(str(number), 100) for number in range(4))))
FIRST, SECOND, THIRD = (a_clear(RECEIVED, at) for at in (2, 4, 6))
SUMMARY = a_summary(RECEIVED, 1, 4)


def test_new_is_what_is_not_inherited_wherever_it_stands():
    inherited = plan_of(FIRST, SECOND)

    assert new_edits(inherited, inherited) == ()
    assert new_edits(plan_of(FIRST, SECOND, THIRD), inherited) == (THIRD,)
    assert new_edits(plan_of(SECOND, SUMMARY), inherited) == (SUMMARY,)
    assert new_edits(plan_of(THIRD, SECOND), EMPTY_PLAN) == (THIRD, SECOND)


def test_what_is_new_gets_the_call_s_number_and_what_is_inherited_keeps_its_own():
    inherited = dated(plan_of(FIRST, SECOND), EMPTY_PLAN, 3)
    grown, summed_up = (
        dated(Plan(edits), inherited, 7) for edits in ((*inherited.edits, THIRD), (inherited.edits[1], SUMMARY))
    )

    assert [edit.turn for edit in grown.edits] == [3, 3, 7]
    assert [edit.turn for edit in summed_up.edits] == [3, 7]
    assert dated(inherited, inherited, 7) is inherited


def test_a_plan_is_told_apart_by_what_it_says_whether_it_has_grown_or_not():
    notes = Notes()
    plans = [EMPTY_PLAN, *(plan_of(*(FIRST, SECOND, THIRD, SUMMARY)[:count]) for count in (1, 2, 4)), plan_of(SECOND)]
    found = [plan_id(notes, plan) for plan in plans]

    assert found == [plan.plan_id() for plan in plans]
    assert len(set(found)) == len(plans)
