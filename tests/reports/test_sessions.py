from proxy.ledger.store import SessionSummary
from proxy.reports.savings import savings
from proxy.reports.sessions import detail, page, turn_row
from proxy.tokens.usage import Usage
from tests.builders import a_turn


def a_line(session, **more):
    known = dict(
        label="", model="m", upstream="u", turns=1, first_at=1.0, last_at=2.0, input_tokens=3, removed_tokens=4
    )
    return SessionSummary(session=session, **{**known, **more})


def a_page(names, offset=0, limit=2, queued=None, modes=None):
    lines = [a_line(name) for name in names]
    return page(lines, offset=offset, limit=limit, queued=queued or {}, modes=modes or {})


def test_a_page_tells_where_the_next_one_begins():
    first, last = a_page("abc"), a_page("abc", offset=2)

    assert ([row.session for row in first.sessions], first.next) == (["a", "b"], 2)
    assert ([row.session for row in last.sessions], last.next) == (["c"], None)


def test_a_line_has_what_was_ordered_for_the_session():
    (row, other) = a_page("ab", queued={"a": 2}, modes={"a": "off"}).sessions

    assert (row.queued, row.mode, row.removed_tokens) == (2, "off", 4)
    assert (other.queued, other.mode) == (0, "")


def test_a_conversation_has_its_calls_and_their_bill():
    turns = [
        a_turn(turn=3, at=30.0, cost=1.0),
        a_turn(turn=2, at=20.0, cost=2.0, label="mine"),
        a_turn(turn=1, at=10.0),
    ]
    found = detail("s1", turns, limit=2, queued=1, mode="off")
    older = detail("s1", turns, limit=2, before=found.next, queued=1, mode="off")

    assert ([row.turn for row in found.turns], found.next, found.label) == ([3, 2], 20.0, "mine")
    assert ([row.turn for row in older.turns], older.next) == ([1], None)
    assert (found.bill.paid, found.bill.calls) == (3.0, 3)
    assert older.bill == found.bill


def test_our_summary_calls_stand_in_a_conversations_bill_as_the_savings_report_has_them():
    turns = [
        a_turn(turn=0, at=25.0, purpose="summary", cost=0.5),
        a_turn(turn=2, at=20.0, cost=2.0, cost_unpruned=4.0),
        a_turn(turn=1, at=10.0, cost=1.0, cost_unpruned=1.0),
    ]
    found = detail("s1", turns, limit=50, queued=0, mode="")
    report = savings(turns)

    assert (found.turns[0].turn, found.turns[0].purpose, found.turns[0].paid) == (0, "summary", 0.5)
    assert (found.bill.calls, found.bill.summary_calls, found.bill.summaries, found.bill.saved) == (2, 1, 0.5, 1.5)
    assert found.bill == report.total == report.by_session[0].bill


def test_a_calls_line_tells_estimate_and_report_apart():
    turn = a_turn(estimated=110, usage=Usage(input_tokens=100, cache_read_tokens=7, output_tokens=5), cost=1.0)
    row = turn_row(turn)

    assert (row.estimated, row.actual, row.error, row.error_percent) == (110, 100, 10, 10.0)
    assert (row.cached_tokens, row.output_tokens, row.paid, row.unpruned) == (7, 5, 1.0, None)


def test_a_call_without_a_report_has_no_error():
    row = turn_row(a_turn(usage=Usage(input_tokens=0)))

    assert (row.actual, row.error, row.error_percent) == (None, None, None)
