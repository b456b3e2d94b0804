import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.pricing.cache import simulate
from proxy.pricing.cost import cost
from proxy.pricing.prices import CacheHabit, Price, Rates

CLAUDE = CacheHabit(read_ratio=0.1, write_ratio=1.25, ttl_s=300, min_prefix=1024)
OPENAI = CacheHabit(read_ratio=0.1, write_ratio=1.0, ttl_s=600, min_prefix=1024, step=128)


def a_call(habit=CLAUDE, **fields):
    defaults = {
        "input_tokens": 60_000,
        "shared_tokens": 50_000,
        "warm_tokens": 50_000,
        "idle_s": 10.0,
        "output_tokens": 100,
    }
    return simulate(habit, **{**defaults, **fields})


def charged(call):
    return call.cache_read_tokens, call.cache_write_tokens, call.warm_tokens


def test_a_growing_conversation_reads_its_past_and_writes_the_rest():
    assert charged(a_call()) == (50_000, 10_000, 60_000)


def test_the_first_call_writes_everything():
    assert charged(a_call(shared_tokens=0, warm_tokens=0)) == (0, 60_000, 60_000)


def test_after_its_lifetime_the_prefix_is_cold():
    assert charged(a_call(idle_s=301)) == (0, 60_000, 60_000)


def test_a_fork_reads_only_what_it_shares():
    assert charged(a_call(shared_tokens=20_000)) == (20_000, 40_000, 60_000)


def test_free_writing_is_not_charged_as_written_and_hits_come_in_steps():
    assert charged(a_call(OPENAI)) == (49_920, 0, 60_000)


def test_short_inputs_are_not_cached():
    assert charged(a_call(input_tokens=1000, shared_tokens=900, warm_tokens=900)) == (0, 0, 0)


def test_a_short_warm_prefix_is_not_read():
    assert charged(a_call(shared_tokens=1000)) == (0, 60_000, 60_000)


def test_a_client_without_cache_marks_pays_full():
    assert charged(a_call(caches=False)) == (0, 0, 0)


def test_a_simulated_call_has_a_cost():
    price = Price(rates=Rates(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25))

    assert cost(a_call(), price) == pytest.approx(5000 + 12_500 + 500)


@given(
    st.sampled_from([CLAUDE, OPENAI]),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(0, 10_000),
)
def test_parts_never_exceed_the_input(habit, total, shared, warm, idle_s):
    call = a_call(habit, input_tokens=total, shared_tokens=shared, warm_tokens=warm, idle_s=idle_s)

    assert 0 <= call.cache_read_tokens + call.cache_write_tokens <= total
    assert call.cache_read_tokens <= min(warm, shared)


def test_what_is_written_for_an_hour_is_warm_for_an_hour():
    late = a_call(idle_s=3000, hour=True)

    assert charged(late) == (50_000, 10_000, 60_000)
    assert late.hour_write_tokens == 10_000
    assert charged(a_call(idle_s=3601, hour=True)) == (0, 60_000, 60_000)
    assert a_call().hour_write_tokens is None
