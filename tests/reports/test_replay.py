import pytest

from proxy.reports.replay import Replayed, replay_rows, replay_text


def a_row(**more):
    known = {
        "name": "session.jsonl", "model": "m", "profile": "gentle", "calls": 10, "direct_tokens": 1000,
        "sent_tokens": 600, "direct_cost": 400.0, "cost": 300.0, "breaks": 2, "regrets": 1,
        "direct_over": 0, "sent_over": 0, "input_price": 5e-6,
    }  # fmt: skip
    return Replayed(**{**known, **more})


def test_each_conversation_says_how_much_fewer_and_cheaper():
    line = replay_text([a_row()]).splitlines()[1]

    assert line.split() == ["session.jsonl", "gentle", "10", "1,000", "40.0", "%", "25.0", "%", "10.0", "%", "2"]


def test_sums_are_of_tokens_and_not_of_shares():
    rows = [a_row(), a_row(name="other", direct_tokens=9000, sent_tokens=9000, direct_cost=3600.0, cost=3600.0)]
    total = replay_text(rows).splitlines()[3]

    assert total.split()[:5] == ["all", "together", "gentle", "20", "10,000"]
    assert total.split()[5::2] == ["4.0", "2.5", "10.0", "4"]


@pytest.mark.parametrize(("price", "share"), [(5e-6, "12.5"), (45e-6, "2.5"), (None, "12.5"), (0.0, "12.5")])
def test_sums_of_what_is_cheaper_are_of_money_where_all_prices_are_known(price, share):
    total = replay_text([a_row(), a_row(name="other", cost=400.0, input_price=price)]).splitlines()[3]

    assert total.split()[7] == share


def test_a_loss_is_shown_as_one():
    assert "-10.0 %" in replay_text([a_row(cost=440.0)])


def test_an_empty_conversation_saves_nothing():
    nothing = a_row(calls=0, direct_tokens=0, sent_tokens=0, direct_cost=0.0, cost=0.0, breaks=0, regrets=0)
    line = replay_text([nothing]).splitlines()[1]

    assert line.split() == ["session.jsonl", "gentle", "0", "0", "0.0", "%", "0.0", "%", "0.0", "%", "0"]


def test_a_loss_that_rounds_to_nothing_has_no_sign():
    assert "-0.0" not in replay_text([a_row(cost=400.0001)])


def test_what_each_profile_saves_is_drawn_within_eighty_columns():
    rows = [a_row(), a_row(profile="bold", cost=200.0), a_row(profile="dear", cost=480.0)]
    bars = [line for line in replay_text(rows).splitlines() if "·" in line]
    room = bars[0].count("█") + bars[0].count("·")

    assert [line.split()[:2] for line in bars[::2]] == [["gentle", "money"], ["bold", "money"], ["dear", "money"]]
    assert [line.count("█") for line in bars[::2]] == [round(0.25 * room), round(0.5 * room), 0]
    assert [line.split()[1] for line in bars[1::2]] == ["regret"] * 3
    assert [line.count("█") for line in bars[1::2]] == [round(0.1 * room)] * 3


@pytest.mark.parametrize("width", [80, 120, 200])
def test_all_lines_fit_the_terminal_and_the_columns_stand_below_each_other(width):
    rows = [
        a_row(
            name=f"projects/{'deep/' * 20}{number}f3a1", profile=profile, direct_tokens=10**number, model=f"m-{number}"
        )
        for number in range(3, 11)
        for profile in ("gentle", "bold")
    ]
    lines = replay_text(rows, width).splitlines()
    table = lines[: lines.index("")]

    assert all(len(line) <= width for line in lines)
    assert {len(line) for line in table} == {len(table[0])}
    assert [line.split()[0][-6:] for line in table[1:-2:2]] == [f"/{number}f3a1"[-6:] for number in range(3, 11)]
    assert [line[0] for line in table[1:]] == ["p", " "] * 8 + ["a", " "]


def test_the_models_whose_prices_were_taken_are_named_the_most_frequent_first():
    models = ["m1", "m2", "m2", "m3", "m4", "m5", "m6", "m7", ""]
    text = replay_text([a_row(model=model, profile=profile) for model in models for profile in ("gentle", "bold")], 200)

    assert "Prices and windows: m2 (2), m1 (1), m3 (1), m4 (1), m5 (1), m6 (1) and 2 more;" in text


def test_money_is_told_at_list_prices_and_models_without_one_are_named():
    rows = [a_row(direct_cost=2e6, cost=1.5e6), a_row(profile="bold", direct_cost=2e6, cost=1e6)]
    strangers = [a_row(profile=profile, model="who", input_price=None) for profile in ("gentle", "bold")]

    assert "At list prices gentle saves $2.50 of $10.00, bold saves $5.00 of $10.00." in replay_text(rows, 200)
    mixed = replay_text([*rows, *strangers], 200)
    assert "bold saves $5.00 of $10.00. No price is known of who: in no sum of money." in mixed
    assert "list prices" not in replay_text(strangers, 200)
    known, unknown = replay_rows([rows[0], strangers[0]])
    assert (known["direct_dollars"], known["dollars"]) == pytest.approx((10.0, 7.5))
    assert (unknown["direct_dollars"], unknown["dollars"]) == (None, None)


def test_calls_that_do_not_fit_the_window_are_counted_where_there_are_any():
    over = [a_row(direct_over=1200, sent_over=30), a_row(profile="bold", direct_over=1200, sent_over=4)]

    assert "Longer than the window: 1,200 calls as they are, 30 with gentle, 4 with bold" in replay_text(over, 200)
    assert "window:" not in replay_text([a_row()])


def test_the_objects_carry_the_shares_of_the_table():
    (row,) = replay_rows([a_row()])

    assert (row["name"], row["regrets"]) == ("session.jsonl", 1)
    assert [row[share] for share in ("fewer", "cheaper", "regret")] == pytest.approx([0.4, 0.25, 0.1])
