"""Where a batch begins, and whether it pays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.conversation.edit import Plan, Replace
from proxy.pruning.entries import Entries
from proxy.pruning.purse import call_ends, purse
from proxy.pruning.situation import Prices, sent_before
from proxy.pruning.standing import standing_results
from proxy.pruning.worth import best_batch, cached_behind
from tests.pruning.builders import a_message, a_situation, answered, call, result, rounds, user, words

PRICES = Prices(read=0.1, write=1.25)


def a_batch(*sizes, left=10, minimum=0, chars=0, prices=PRICES, **more):
    messages = answered(rounds(*(words(str(n), size) for n, size in enumerate(sizes))))
    situation = a_situation(messages, prices=prices, **more)
    old = [(standing, left) for standing in standing_results(situation)]
    return best_batch(old, situation, minimum=minimum, chars=chars)


def lost(situation):
    """What is lost with each message, and behind the last one."""
    return [*map(cached_behind(situation), range(len(situation.messages) + 1))]


def chosen(batch):
    return [standing.message for standing in batch.chosen]


def test_the_batch_begins_where_rewriting_what_stands_behind_it_costs_least():
    messages = answered(rounds(words("a", 100), words("stays", 8000), words("c", 5000)))
    situation = a_situation(messages, prices=PRICES, expected_turns=20)
    first, _, last = standing_results(situation)

    assert chosen(best_batch([(first, 10), (last, 10)], situation, minimum=0, chars=0)) == [6]


def test_nothing_goes_when_hardly_any_call_is_expected():
    assert a_batch(1000, 1000, 1000, left=900, expected_turns=1).skipped == "would_not_pay"


def test_what_pays_is_still_left_alone_while_the_purse_does_not_cover_it():
    assert a_batch(3000, 400, 400, 400, left=390, expected_turns=60).skipped == "would_risk_a_loss"


def test_a_cold_cache_makes_every_edit_pay_at_once():
    assert chosen(a_batch(1000, 1000, 1000, cold=True, expected_turns=0)) == [2, 4, 6]


def test_as_much_is_left_as_the_cache_takes():
    small = Prices(read=0.1, write=1.25, minimum=2000)

    assert chosen(a_batch(1000, 1000, 1000, cold=True, expected_turns=0, prices=small)) == [6]
    assert a_batch(1000, 500, 400, cold=True, expected_turns=0, prices=small).skipped == "would_not_pay"


def test_less_is_left_where_all_of_it_costs_less_in_full_than_to_read_what_is_there():
    ample, dear = Prices(read=0.5, write=1.0, minimum=1000), Prices(read=0.1, write=1.0, minimum=1000)

    assert chosen(a_batch(1000, 1000, 1000, cold=True, expected_turns=9, prices=ample)) == [2, 4, 6]
    assert chosen(a_batch(1000, 1000, 1000, cold=True, expected_turns=9, prices=dear)) == [4, 6]


def test_what_a_cache_takes_is_left_where_that_is_cheaper_to_read_than_less_is_in_full():
    """Behind 900 tokens that stay, 300 more are read for less than 900 are paid for."""
    prices = Prices(read=0.5, write=1.0, minimum=1000)
    messages = answered([user(words("stays", 900)), *rounds(words("a", 300), words("b", 3000))[1:]])
    situation = a_situation(messages, prices=prices, cold=True, expected_turns=9)
    old = [(standing, 10) for standing in standing_results(situation)]

    assert chosen(best_batch(old, situation, minimum=0, chars=0)) == [4]
    assert chosen(best_batch(old, replace(situation, expected_turns=0), minimum=0, chars=0)) == [4]


def test_without_a_prompt_cache_everything_goes():
    assert chosen(a_batch(1000, 1000, prices=None, expected_turns=0)) == [2, 4]


@pytest.mark.parametrize(("minimum", "chars"), [(100_000, 0), (0, 1_000_000)])
def test_a_batch_must_be_large_enough(minimum, chars):
    assert a_batch(5000, minimum=minimum, chars=chars).skipped == "batch_below_minimum"


def test_no_batch_costs_more_at_once_than_the_purse_holds():
    for sizes in ((300, 400, 500, 600), (4000, 10, 10, 10), (10, 10, 10, 4000), (900,) * 12):
        situation = a_situation(
            answered(rounds(*(words(str(n), size) for n, size in enumerate(sizes)))), prices=PRICES, expected_turns=60.0
        )
        old = [(standing, 20) for standing in standing_results(situation) if standing.tokens > 40]
        batch = best_batch(old, situation, minimum=0, chars=0)
        if batch.chosen:
            removed = sum(standing.tokens - 20 for standing in batch.chosen)
            behind = cached_behind(situation)(batch.chosen[0].message)

            assert 1.25 * (behind - removed) - 0.1 * behind <= purse(situation, PRICES) + 1e-6


def test_a_change_loses_what_is_cached_from_the_last_call_that_ended_before_it():
    situation = a_situation(answered(rounds(words("a", 100), words("b", 50))), prices=PRICES)
    tokens = situation.message_tokens
    second = tokens[3] + tokens[4]
    first = tokens[1] + tokens[2] + second

    # Calls had ended behind messages 0 and 2, and behind 4; the answer to the last one is not cached yet.
    assert lost(situation) == [tokens[0] + first, first, first, second, second, 0, 0]
    assert lost(a_situation([user()])) == [0, 0]


@pytest.mark.parametrize("prices", [Prices(read=0.1, write=1.0), None])
def test_where_any_prefix_is_found_a_change_loses_only_what_stands_behind_it(prices):
    situation = a_situation(answered(rounds(words("a", 100), words("b", 50))), prices=prices)
    behind = lost(situation)

    assert [behind[index] - behind[index + 1] for index in range(5)] == list(situation.message_tokens[:5])


def test_a_prefix_that_is_too_short_for_the_cache_is_lost_with_what_stands_behind_it():
    messages = answered(rounds(words("a", 100), words("b", 50)))
    total = 70 + sum(a_situation(messages).message_tokens)
    for write in (1.0, 1.25):
        plain = a_situation(messages, prices=Prices(read=0.1, write=write), total=total)
        whole = 70 + sum(plain.message_tokens[:5])
        least = a_situation(messages, prices=Prices(read=0.1, write=write, minimum=150), total=total)
        found, short = lost(plain), lost(least)

        assert short[4] == found[4] < whole
        assert short[2] == whole
        assert short[5:] == [0, 0]


def test_what_was_too_short_for_the_cache_has_nothing_to_lose():
    messages = answered(rounds(words("a", 100)))

    assert not any(lost(a_situation(messages, prices=Prices(read=0.1, write=1.25, minimum=1000))))


def test_to_lose_a_prefix_is_part_of_what_a_batch_costs():
    messages = answered(rounds(words("a", 3000), words("b", 3000)))
    total = 2000 + sum(a_situation(messages).message_tokens)
    why = []
    for minimum in (0, 2500):
        prices = Prices(read=0.1, write=1.0, minimum=minimum)
        situation = a_situation(messages, prices=prices, total=total, expected_turns=10)
        first, _ = standing_results(situation)
        why.append(best_batch([(first, 10)], situation, minimum=0, chars=0).skipped)

    assert why == ["would_risk_a_loss", "would_not_pay"]


def test_system_text_without_a_breakpoint_of_its_own_is_lost_where_no_entry_is_found():
    messages = answered(rounds(words("a", 100), words("b", 50)))
    total = 70 + sum(a_situation(messages).message_tokens)
    marked = a_situation(messages, prices=PRICES, total=total)
    alone = a_situation(messages, prices=PRICES, total=total, head_kept=False)

    # Only a call's end is found, and none lies in front of the first message.
    assert lost(alone)[0] == 70 + lost(marked)[0]
    assert lost(alone)[1:] == lost(marked)[1:]


def test_where_a_cold_cache_is_only_likely_an_edit_costs_no_more_than_the_purse_holds_should_it_be_warm():
    sizes, left = (3000, 400, 400, 400), 390

    assert chosen(a_batch(*sizes, left=left, cold=True)) == [2, 4, 6, 8]
    assert a_batch(*sizes, left=left, cold=True, doubtful=True).skipped == "would_risk_a_loss"
    assert chosen(a_batch(*sizes, left=left, prices=None, cold=True, doubtful=True)) == [2, 4, 6, 8]


def test_entries_of_calls_before_one_that_found_nothing_are_not_reckoned_with():
    messages = answered(rounds(words("a", 100), words("b", 50), words("c", 50)))
    plain, rewritten = (lost(a_situation(messages, prices=PRICES, rewritten=end)) for end in (0, 5))

    # Entries end at 1, 3 and 5; the third call wrote everything anew.
    assert plain[4] == plain[3] < plain[1]
    assert rewritten[4] == rewritten[0] == plain[0]
    assert rewritten[5:] == plain[5:]


def plainly(situation):
    """What `cached_behind` gives, with every call of the conversation played."""
    end, now = sent_before(situation), len(situation.messages)
    behind = [sum(situation.message_tokens[at:end]) for at in range(now + 1)]
    if situation.prices is None:
        return behind
    whole = situation.head_tokens + behind[0]
    if situation.prices.breakpoints:
        entries = Entries(situation.messages)
        changes = [(edit.decided, list(situation.keys).index(edit.at)) for edit in situation.plan.edits]
        rewritten = situation.rewritten
        for sent in call_ends(situation):
            if rewritten and sent >= rewritten:
                entries.forget()
                rewritten = 0
            for at in [at for decided, at in changes if decided == sent]:
                entries.changed(at)
            entries.ended(sent)
        places = [entries.found(at, now) for at in range(now + 1)]
        behind = [behind[found] if found or situation.head_kept else whole for found in places]
    spare = whole - situation.prices.minimum / situation.density
    return [0 if spare < 0 else one if one <= spare else whole for one in behind]


@given(st.data())
def test_calls_further_back_than_a_cache_looks_change_nothing(data):
    messages, widths = [user()], data.draw(st.sampled_from([(1,), (1, 1, 4)]))
    for number in range(data.draw(st.integers(1, 30))):
        messages.append(call(f"c{number}"))
        width = data.draw(st.sampled_from(widths))
        parts = [part for at in range(width) for part in result(f"c{number}", words(f"{number}.{at}", 20)).parts]
        messages += [a_message("tool", *parts), *([user()] if data.draw(st.booleans()) else [])]
    plain = a_situation(answered(messages))
    places, ends = st.integers(0, len(messages) - 1), st.integers(0, len(messages) + 1)
    edits = [
        Replace(
            at=plain.keys[at], part=0, kind="clear", text="", reason="", tool="", tokens_before=1, tokens_after=1,
            decided=decided,
        )
        for at, decided in data.draw(st.lists(st.tuples(places, ends), max_size=6))
    ]  # fmt: skip
    situation = a_situation(
        plain.messages,
        Plan(tuple(edits)),
        prices=data.draw(
            st.sampled_from([None, PRICES, Prices(read=0.1, write=1.0), Prices(read=0.1, write=1.25, minimum=300)])
        ),
        total=plain.total + data.draw(st.sampled_from([0, 50])),
        head_kept=data.draw(st.booleans()),
        rewritten=data.draw(st.one_of(st.just(0), ends)),
    )

    assert lost(situation) == plainly(situation)
