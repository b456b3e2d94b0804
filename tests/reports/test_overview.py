import msgspec
import pytest

from proxy.ledger.records import Item
from proxy.reports.overview import overview
from proxy.tokens.context import Last, Present, context_size
from proxy.tokens.usage import Usage
from tests.builders import a_turn


def from_context(context, **more):
    """The row that is kept of a call with this context."""
    return a_turn(
        basis=context.basis,
        estimated=context.total,
        window=context.window,
        reserve=context.reserve,
        system_tokens=context.system,
        tools_tokens=context.tools,
        last_input=context.last_input,
        last_output=context.last_output_resent,
        new_tokens=context.new,
        corrections=context.corrections,
        reasoning_tokens=context.reasoning,
        warning=context.warning,
        **more,
    )


def the_seeds_example(**more):
    present = Present(system=4_000, tools=8_000, new=100, reasoning=700)
    last = Last(input_tokens=50_000, output_tokens=2_000, system=4_000, tools=8_000)
    return from_context(context_size(present, last, window=200_000, reserve=16_000), **more)


def rows_of(shown):
    return {row.name: row.tokens for row in shown.rows}


def test_c3_the_seeds_example_shows_the_seeds_numbers():
    shown = overview([the_seeds_example()])

    assert (shown.total, shown.window, round(shown.percent)) == (52_100, 200_000, 26)
    assert rows_of(shown) == {
        "system": 4_000,
        "tools": 8_000,
        "messages": 40_100,
        "reasoning": 700,
        "reserve": 16_000,
        "free": 131_900,
    }
    assert (shown.basis.last_input, shown.basis.last_output, shown.basis.new) == (50_000, 2_000, 100)


def test_r9_rows_say_how_they_are_known():
    shown = overview([the_seeds_example()])

    assert {row.name: row.source for row in shown.rows} == {
        "system": "estimated",
        "tools": "estimated",
        "messages": "back-calculated",
        "reasoning": "estimated",
        "reserve": "configured",
        "free": "remaining",
    }


@pytest.mark.parametrize(
    ("system", "tools", "new"),
    [(4_000, 8_000, 100), (0, 0, 0), (60_000, 70_000, 5), (1, 1, 500_000)],
)
def test_r5_rows_add_up(system, tools, new):
    present = Present(system=system, tools=tools, new=new)
    context = context_size(present, Last(input_tokens=9_000), window=200_000, reserve=16_000)
    shown = overview([from_context(context)])
    rows = rows_of(shown)

    assert rows["system"] + rows["tools"] + rows["messages"] == shown.total
    assert shown.total + rows["reserve"] + rows["free"] == shown.window
    assert rows["messages"] >= 0


def test_c4_system_and_tools_over_the_total_are_scaled_and_said():
    present = Present(system=6_000, tools=7_000, new=0)
    last = Last(input_tokens=10_000, system=6_000, tools=7_000)
    shown = overview([from_context(context_size(present, last, window=200_000))])

    rows = rows_of(shown)
    assert (shown.total, rows["system"], rows["tools"], rows["messages"]) == (10_000, 4_615, 5_385, 0)
    assert "scaled" in shown.warning


def test_c1_the_last_estimates_error_is_signed():
    turn = a_turn(estimated=5_120, usage=Usage(input_tokens=5_115, output_tokens=50))

    last = overview([turn]).last_estimate
    assert (last.error, round(last.error_percent, 1)) == (5, 0.1)


def test_c2_the_next_request_begins_with_the_reported_input_and_output():
    turn = a_turn(estimated=5_120, usage=Usage(input_tokens=5_115, output_tokens=50))

    assert overview([turn]).next_input == 5_165


def test_c5_the_error_is_a_share_of_the_actual_count():
    turn = a_turn(estimated=73_000, usage=Usage(input_tokens=122_400))

    assert round(overview([turn]).last_estimate.error_percent, 1) == -40.4


@pytest.mark.parametrize("actual", [0, None])
def test_c6_without_an_actual_count_there_is_no_error(actual):
    shown = overview([a_turn(usage=Usage(input_tokens=actual))])

    assert shown.last_estimate is None
    assert shown.reported is None
    assert shown.next_input is None


def test_the_last_checked_estimate_may_be_an_earlier_calls():
    running = a_turn(turn=8, at=2000.0)
    settled = a_turn(turn=7, usage=Usage(input_tokens=90))

    assert overview([running, settled]).last_estimate.turn == 7


def test_r30_the_raw_size_stands_beside_the_effective_one():
    shown = overview([a_turn(estimated=100_000, removed_tokens=50_000)])

    assert (shown.total, shown.raw_total, shown.removed_tokens) == (100_000, 150_000, 50_000)


def test_r36_cached_tokens_fill_the_window_once():
    usage = Usage(input_tokens=52_061, cache_read_tokens=50_000, cache_write_tokens=2_000, output_tokens=39)

    assert overview([a_turn(usage=usage)]).next_input == 52_100


def test_r37_the_percentage_is_of_the_whole_window():
    turn = a_turn(estimated=50_000, window=200_000, reserve=100_000)

    assert overview([turn]).percent == 25.0


def test_without_a_window_there_is_no_percentage_and_no_free_space():
    shown = overview([a_turn(window=None, reserve=16_000)])

    assert shown.percent is None
    assert "free" not in rows_of(shown)
    assert all(row.percent is None for row in shown.rows)


def test_free_space_is_negative_when_the_request_is_over():
    assert rows_of(overview([a_turn(estimated=190, window=200, reserve=50)]))["free"] == -40


@pytest.mark.parametrize(
    ("max_input", "closed", "free"),
    [(272_000, 112_000, 172_000), (384_000, None, 284_000), (390_000, None, 284_000), (None, None, 284_000)],
)
def test_free_space_ends_where_a_limit_of_the_input_does(max_input, closed, free):
    shown = overview([a_turn(estimated=100_000, window=400_000, reserve=16_000, max_input=max_input)])
    rows = rows_of(shown)

    assert (rows.get("closed"), rows["free"]) == (closed, free)
    assert shown.total + rows["reserve"] + rows.get("closed", 0) + rows["free"] == shown.window


def test_a_pure_estimate_has_no_last_input_and_estimates_its_messages():
    shown = overview([from_context(context_size(Present(system=10, tools=20, new=70, priming=3)))])

    assert (shown.basis.kind, shown.basis.last_input, shown.basis.last_output) == ("estimated", None, None)
    assert {row.source for row in shown.rows if row.name == "messages"} == {"estimated"}
    assert shown.basis.new + shown.basis.corrections == shown.total == 103


def test_tools_and_results_come_largest_first():
    largest = (Item(tool="read", message=4, tokens=9), Item(tool="bash", message=2, tokens=3, edit="clear"))
    shown = overview([a_turn(by_tool={"bash": 5, "read": 9, "ask": 5}, largest=largest)])

    assert [(one.tool, one.tokens) for one in shown.by_tool] == [("read", 9), ("ask", 5), ("bash", 5)]
    assert shown.largest == largest


def test_decisions_of_earlier_calls_are_shown_oldest_first():
    turns = [a_turn(turn=3, decisions=("c",)), a_turn(turn=2), a_turn(turn=1, decisions=("a", "b"))]

    assert overview(turns).decisions == ("turn 1: a", "turn 1: b", "turn 3: c")


def test_a_clients_own_title_call_is_not_its_context():
    turns = [a_turn(turn=3, purpose="utility", estimated=5), a_turn(turn=2, estimated=500)]

    assert overview(turns).total == 500
    assert overview(turns[:1]).total == 5


@pytest.mark.parametrize("turns", [[], [a_turn(purpose="summary")]])
def test_without_a_call_of_the_clients_there_is_nothing_to_show(turns):
    assert overview(turns) is None


def test_what_is_shown_is_json_as_it_stands():
    shown = overview([the_seeds_example(usage=Usage(input_tokens=51_790, output_tokens=20))])

    assert msgspec.json.decode(msgspec.json.encode(shown), type=type(shown)) == shown
