from proxy.reports.replay import Replayed, replay_text


def a_row(**more):
    known = {
        "name": "session.jsonl", "model": "m", "profile": "gentle", "calls": 10, "direct_tokens": 1000,
        "sent_tokens": 600, "direct_cost": 400.0, "cost": 300.0, "breaks": 2,
    }  # fmt: skip
    return Replayed(**{**known, **more})


def test_each_conversation_says_how_much_fewer_and_cheaper():
    line = replay_text([a_row()]).splitlines()[1]

    assert line.split() == ["session.jsonl", "gentle", "10", "1,000", "40.0%", "25.0%", "2"]


def test_sums_are_of_tokens_and_not_of_shares():
    rows = [a_row(), a_row(name="other", direct_tokens=9000, sent_tokens=9000, direct_cost=3600.0, cost=3600.0)]
    total = replay_text(rows).splitlines()[3]

    assert total.split() == ["all", "together", "gentle", "20", "10,000", "4.0%", "2.5%", "4"]


def test_a_loss_is_shown_as_one():
    assert "-10.0%" in replay_text([a_row(cost=440.0)])


def test_an_empty_conversation_saves_nothing():
    assert "0.0%" in replay_text([a_row(calls=0, direct_tokens=0, sent_tokens=0, direct_cost=0.0, cost=0.0)])


def test_what_each_profile_saves_is_drawn_within_eighty_columns():
    rows = [a_row(), a_row(profile="bold", cost=200.0), a_row(profile="dear", cost=480.0)]
    bars = [line for line in replay_text(rows).splitlines() if line.endswith("saved")]

    assert [line.split()[0] for line in bars] == ["gentle", "bold", "dear"]
    assert [line.count("█") for line in bars] == [12, 25, 0]
    assert all(len(line) <= 80 for line in bars)
