import io

from rich.console import Console

from proxy.reports.columns import Bar, Columns


def lines(shown, width):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(shown)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_bar_is_as_wide_as_there_is_room():
    assert lines(Bar(used=0.25, kept=0.5), 80) == ["[" + "#" * 16 + "-" * 32 + "." * 16 + "]"]
    assert lines(Bar(used=0.25, kept=0.5), 42) == ["[" + "#" * 10 + "-" * 20 + "." * 10 + "]"]


def printed(width):
    shown = Columns("model", "basis", "calls", "median", first=2)
    shown.add_row("openai/gpt\n  a label", "anchored", "39", "0.01 %")
    shown.add_row("all", "estimated", "2", "n/a")
    return lines(shown, width)


def test_where_there_is_room_rows_are_a_table():
    assert printed(80) == [
        "model       basis      calls  median",
        "openai/gpt  anchored      39  0.01 %",
        "  a label",
        "all         estimated      2     n/a",
    ]


def test_a_name_that_is_too_long_for_the_table_stands_above_its_row_unbroken():
    shown = Columns("model", "basis", "calls", first=2)
    shown.add_row("anthropic/claude-sonnet\n  a label", "anchored", "39")
    shown.add_row("[bold]all[/bold]", "estimated", "2")

    assert lines(shown, 36) == [
        "model               basis      calls",
        "anthropic/claude-sonnet  anchored",
        "                                  39",
        "  a label",
        "all                 estimated      2",
    ]


def test_where_too_little_is_left_for_names_they_are_a_list():
    assert printed(30) == [
        "openai/gpt a label, anchored",
        "  calls 39, median 0.01 %",
        "all, estimated",
        "  calls 2, median n/a",
    ]
