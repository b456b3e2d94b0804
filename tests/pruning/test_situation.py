import pytest

from proxy.pruning.situation import Prices, stays_cached
from tests.pruning.builders import a_situation, answered, rounds, user, words


@pytest.mark.parametrize(("window", "reserve", "usable"), [(1000, 300, 700), (1000, 2000, 0), (None, 300, None)])
def test_usable_is_the_window_without_the_reserve(window, reserve, usable):
    assert a_situation([user()], window=window, reserve=reserve).usable == usable


def test_what_stands_in_front_of_the_messages_is_what_the_total_leaves_where_nobody_says_it():
    messages = answered(rounds(words("a", 100)))
    plain = a_situation(messages)

    assert a_situation(messages, total=plain.total + 40).head_tokens == 40
    assert a_situation(messages, total=plain.total + 40, head=30).head_tokens == 30


def test_what_is_left_for_the_cache_is_reckoned_in_the_providers_tokens():
    messages = answered(rounds(words("a", 1000)))
    tokens = sum(a_situation(messages).message_tokens)
    denser = a_situation(messages, total=2 * tokens, head=0, prices=Prices(read=0.1, write=1.0, minimum=1000))

    assert denser.density == 2.0
    assert stays_cached(denser, tokens - 500)
    assert not stays_cached(denser, tokens - 400)


def test_what_is_left_is_reckoned_by_what_the_provider_counted_before_where_that_is_less():
    plain = a_situation(answered(rounds(words("a", 1000))))
    situation = a_situation(
        plain.messages, total=5000, least=4000, counted=0.5, prices=Prices(read=0.1, write=1.0, minimum=3900)
    )

    assert situation.density == 0.5
    assert stays_cached(situation, 200)
    assert not stays_cached(situation, 202)
