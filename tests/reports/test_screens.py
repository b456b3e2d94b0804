import io

import pytest
from msgspec import structs
from rich.console import Console

from proxy.ledger.records import Item
from proxy.ledger.store import SessionSummary
from proxy.reports.accuracy import accuracy
from proxy.reports.edits import EditRow, Edits
from proxy.reports.overview import overview
from proxy.reports.savings import savings
from proxy.reports.screens import accuracy_screen, context_screen, edits_screen, savings_screen, sessions_screen
from proxy.reports.sessions import page
from proxy.tokens.usage import Usage
from tests.builders import a_turn

FULL = a_turn(
    session="7f3a",
    turn=12,
    label="fix [the] parser",
    model="claude-sonnet-4-5-20250929",
    upstream="anthropic",
    estimated=52_100,
    window=200_000,
    reserve=16_000,
    system_tokens=4_000,
    tools_tokens=8_000,
    last_input=50_000,
    last_output=2_000,
    new_tokens=100,
    corrections=-30,
    reasoning_tokens=700,
    removed_tokens=31_000,
    usage=Usage(input_tokens=51_790, output_tokens=400),
    by_tool={"read": 12_000, "mcp__a_server_with_a_very_long_name__and_a_tool_with_a_very_long_name_too": 3_000},
    largest=(Item(tool="read", message=4, tokens=9_000), Item(tool="bash", message=9, tokens=30, edit="clear")),
    edits={"clear": 2, "summarise": 1},
    decisions=("clear read -5000: older than the newest 40,000 tokens of results",),
    skipped="not_worth_it",
    warning="system and tools are estimated at more than the whole; both are scaled",
    cost=0.5,
    cost_unpruned=1.7,
    grown=500,
)


def printed(screen, width=80, **more):
    console = Console(file=io.StringIO(), width=width, highlight=False, **more)
    console.print(screen)
    return console.file.getvalue()


def numbers_of(text):
    """Each line's words, blanks closed up."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_c3_the_context_display_prints_the_seeds_lines():
    lines = numbers_of(printed(context_screen(overview([FULL]))))

    assert lines[0] == "Context usage: 52,100 / 200,000 tokens (26 %)"
    for line in (
        "System prompt 4,000 (estimated)",
        "Tools 8,000 (estimated)",
        "Messages 40,100 (back-calculated)",
        "Total 52,100",
        "Last actual input 50,000 (reported)",
        "Last output 2,000 (reported, as far as it was sent back)",
        "New since then 100 (estimated)",
        "Last estimate accuracy: +0.6 % error (+310 tokens of 51,790 reported)",
        "Free space: 131,900 tokens (after 16,000 output reserve)",
    ):
        assert line in lines


def test_the_display_tells_what_was_taken_out_and_why():
    text = printed(context_screen(overview([FULL])))

    assert "Without edits: 83,100 tokens (31,000 removed)" in text
    assert "2 × clear, 1 × summarise" in text
    assert "clear read -5000: older than the newest 40,000 tokens of results" in text
    assert "Nothing pruned now: not_worth_it" in text
    assert "now a clear" in text
    assert "Warning" in text


def test_r30_reasoning_is_a_row_of_its_own_with_what_the_client_sent_beside_it():
    stripped = structs.replace(FULL, reasoning_tokens=700, reasoning_raw=2_700, dropped_reasoning=2)
    same = structs.replace(FULL, reasoning_raw=700)
    whole = structs.replace(FULL, reasoning_tokens=0, reasoning_raw=2_700)

    assert "of it reasoning 700 (estimated; the client sent 2,700)" in numbers_of(
        printed(context_screen(overview([stripped])))
    )
    assert "of it reasoning 700 (estimated)" in numbers_of(printed(context_screen(overview([same]))))
    assert "of it reasoning 0 (estimated; the client sent 2,700)" in numbers_of(
        printed(context_screen(overview([whole])))
    )
    assert overview([stripped]).dropped_reasoning == 2


def test_names_of_strangers_are_text_and_no_markup():
    assert "(fix [the] parser)" in printed(context_screen(overview([FULL])))


def test_the_bar_is_as_full_as_the_window():
    bar = printed(context_screen(overview([FULL]))).splitlines()[1]

    assert (bar.count("#"), bar.count("-"), bar.count(".")) == (17, 5, 42)


def test_the_bar_of_a_request_that_is_over_is_full():
    over = a_turn(estimated=500, window=200, reserve=50)
    text = printed(context_screen(overview([over])))

    assert f"[{'#' * 64}]" in text
    assert "Free space: -350 tokens (after 50 output reserve): over the window" in text


def test_a_limit_of_the_input_is_told_beside_the_free_space():
    limited = a_turn(estimated=300_000, window=400_000, reserve=16_000, max_input=272_000)
    text = " ".join(printed(context_screen(overview([limited]))).split())

    assert "Free space: -28,000 tokens (after 16,000 output reserve, 112,000 that no input may fill)" in text
    assert "): over the input limit" in text


def test_without_window_and_report_the_display_says_so():
    text = printed(context_screen(overview([a_turn(basis="estimated", new_tokens=97, corrections=3)])))

    assert "Context usage: 100 tokens (window unknown)" in text
    assert "Last estimate accuracy: n/a" in text
    assert "All messages" in text
    assert "Around them +3 (estimated: system, tools, frame)" in numbers_of(text)
    assert "Last actual input" not in text


def an_edit(**more):
    known = dict(number=1, kind="clear", turn=7, tool="read [x]", reason="older", at="00", tokens_before=1_500)
    known |= dict(tokens_after=20, saved_tokens=1_480, after="[gone]", before="the file", before_cut=0, before_note="")
    return EditRow(**{**known, **more})


def edits_of(*rows, known=True, observed=False, removed=0):
    shown = Edits(session="s1", turn=9, known=known, observed=observed, removed_tokens=removed, edits=rows)
    return printed(edits_screen(shown))


def test_each_edit_is_listed_with_its_call_and_both_texts():
    lines = numbers_of(edits_of(an_edit(), an_edit(number=2, turn=None, before=None, before_note="nothing stood here")))

    assert lines[0] == "Edits of session s1, turn 9: 2, -2,960 tokens"
    assert "1. clear read [x] (turn 7) 1,500 → 20 tokens: older" in lines
    assert "before: the file" in lines
    assert "after: [gone]" in lines
    assert "2. clear read [x] (turn n/a) 1,500 → 20 tokens: older" in lines
    assert "before: (nothing stood here)" in lines


def test_what_earlier_edits_took_out_of_a_summarys_span_counts_too():
    assert "turn 9: 1, -40,000 tokens" in edits_of(an_edit(kind="summarise"), removed=40_000)


def test_of_long_texts_the_first_lines_are_listed_and_no_control_character_acts():
    text = "one \x1b[31mred\n" + "\n".join(f"line {number} " + "x" * 300 for number in range(40))
    shown = edits_of(an_edit(before=text))

    assert "\x1b" not in shown
    assert "… 37 more lines" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_texts_are_listed_from_the_line_on_at_which_they_part():
    lines = numbers_of(edits_of(an_edit(before="a\nb\nthe whole", after="a\nb\n[3 lines]")))

    assert lines[3:] == ["same: the first 2 lines", "before: the whole", "after: [3 lines]"]
    assert "before:" in numbers_of(edits_of(an_edit(before="", after="x")))


def test_edits_that_were_only_observed_are_called_so():
    assert "only observed" in edits_of(an_edit(), observed=True)
    assert "observed" not in edits_of(an_edit())


def test_no_edits_and_no_plan_are_told_apart():
    assert "nothing was taken out" in edits_of()
    assert "no longer has the plan" in edits_of(known=False)


def all_screens():
    line = SessionSummary(
        session="7f3a" * 4,
        label="a label of forty characters, more or less",
        model=FULL.model,
        upstream="anthropic",
        turns=120,
        first_at=1.0,
        last_at=2e9,
        input_tokens=12_345_678,
        removed_tokens=1_234_567,
    )
    held = a_turn(session="h", skipped="held_out", cost=2.0)
    turns = [FULL, a_turn(), held]
    return {
        "context": context_screen(overview([FULL])),
        "accuracy": accuracy_screen(accuracy(turns, treatments={("anthropic", FULL.model): "kept"}, complete=False)),
        "savings": savings_screen(savings(turns)),
        "sessions": sessions_screen(page([line] * 3, offset=0, limit=2, queued={}, modes={})),
    }


@pytest.mark.parametrize("name", ["context", "accuracy", "savings", "sessions"])
def test_every_line_fits_into_80_columns(name):
    text = printed(all_screens()[name])

    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_a_long_name_is_not_broken_at_80_columns():
    text = printed(all_screens()["accuracy"])

    assert "anthropic/claude-sonnet-4-5-20250929  anchored\n" in text
    assert "\nopenai/m" in text


def test_the_context_display_says_when_it_lists_only_the_newest_decisions():
    lines = tuple(f"clear read -{number}: older output" for number in range(1, 12))
    ten, eleven = (printed(context_screen(overview([structs.replace(FULL, decisions=lines[:n])]))) for n in (10, 11))

    assert "clear read -1:" in ten
    assert "--edits" not in ten
    assert "(the newest decisions; `--edits` shows all)" in " ".join(eleven.split())
    assert "clear read -1:" not in eleven


@pytest.mark.parametrize("width", [40, 48])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("accuracy", "openai/m, anchored"),
        ("accuracy", "calls 1, median 0.60 %,"),
        ("savings", "calls 3, removed"),
        ("sessions", "7f3a7f3a7f3a7f3a a label"),
        ("sessions", "calls 120, input"),
    ],
)
def test_a_narrow_terminal_gets_lists_instead_of_broken_words(name, words, width):
    text = printed(all_screens()[name], width=width)

    assert max(map(len, text.splitlines())) <= width
    assert words in " ".join(text.split())


@pytest.mark.parametrize("name", ["context", "accuracy", "savings", "sessions"])
def test_without_colour_nothing_is_missing(name):
    plain = printed(all_screens()[name], no_color=True, force_terminal=False)

    assert "\x1b" not in plain
    coloured = printed(all_screens()[name], force_terminal=True, color_system="truecolor")
    assert "\x1b" in coloured


def test_savings_are_shown_net():
    lines = numbers_of(printed(savings_screen(savings([FULL, a_turn()]))))

    assert lines[0] == "Saved: $1.20 net (+70.6 %)"
    assert "tokens removed 31,000 of 82,790" in lines
    assert "without price or usage 1 of 2 calls: in no sum of money" in lines


def test_what_was_only_observed_has_a_line_of_its_own():
    observed = a_turn(would_remove_tokens=4_200)

    assert "Only observed: 4,200 tokens would have been removed" in printed(context_screen(overview([observed])))
    assert "only observed 4,200 tokens would have been removed" in numbers_of(
        printed(savings_screen(savings([observed])))
    )
    assert "observed" not in printed(savings_screen(savings([FULL])))


def test_a_loss_is_called_one():
    text = printed(savings_screen(savings([a_turn(cost=2.0, cost_unpruned=1.0)])))

    assert "Saved: -$1.00 net (-100.0 %) (the proxy cost more than it saved)" in text


def test_where_calls_would_not_have_fitted_the_window_a_loss_is_not_told_alone():
    turns = [a_turn(cost=2.0, cost_unpruned=1.0, window=100, usage=Usage(input_tokens=50), removed_tokens=60), a_turn()]
    text = printed(savings_screen(savings(turns)))

    assert "Saved: -$1.00 net (-100.0 %)" in text
    assert "the proxy cost more" not in text
    assert "beyond the window 1 of 2 calls without the proxy: as if cut to it" in numbers_of(text)


def test_the_held_out_arm_stands_beside_the_treated():
    text = printed(all_screens()["savings"])

    assert "held out" in text
    assert "treated" in text


def test_accuracy_shows_growth_and_what_was_left_out():
    lines = numbers_of(printed(all_screens()["accuracy"], width=100))

    assert "all anchored 1 0.60 % 0.60 % 0.60 % +0.60 % 62.0 %" in lines
    assert "In no figure: 2 calls without a reported count." in lines
    assert "Only the newest calls were looked at; there are more." in lines


def test_accuracy_says_of_each_model_once_what_became_of_earlier_reasoning():
    turns = [structs.replace(FULL, learned_from=1_200), structs.replace(FULL, basis="estimated"), a_turn()]
    lines = numbers_of(printed(accuracy_screen(accuracy(turns, treatments={("openai", "m"): "dropped"}))))

    assert lines.count("anthropic/claude-sonnet-4-5-20250929 not known yet 1,200") == 1
    assert "openai/m dropped 0" in lines
    assert "earlier reasoning" not in printed(accuracy_screen(accuracy([])))
