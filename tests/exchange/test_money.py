import pytest
from msgspec.structs import replace

from proxy.exchange.money import money_of
from proxy.pricing.cost import cost
from proxy.pricing.prices import habit_for, price_for
from proxy.tokens.usage import NOT_REPORTED, Usage
from tests.builders import EAGER, QUIET, Line, a_summary, an_observation, rounds, said, user, words

PRICE = price_for("claude-sonnet-4-5", upstream="anthropic")
HABIT = habit_for("claude-sonnet-4-5", upstream="anthropic")
SEEN = [*rounds(words("old", 5000)), said("read it"), user("next")]


def pruned():
    """A first call as it came, then one from which 5,000 tokens were taken; both through a cache."""
    line = Line(EAGER)
    first = line.prepared(SEEN[:3])
    line.answered(
        first, an_observation("read it", usage=Usage(input_tokens=5020, cache_write_tokens=5000, output_tokens=5))
    )
    return line.prepared(SEEN)


def test_without_usage_there_is_no_bill():
    money = money_of(pruned(), NOT_REPORTED, PRICE, HABIT)

    assert (money.paid, money.unpruned) == (None, None)


def test_without_a_price_there_is_no_bill_and_the_cache_is_followed_all_the_same():
    money = money_of(pruned(), Usage(input_tokens=100, output_tokens=5), None, HABIT)

    assert (money.paid, money.unpruned) == (None, None)
    assert money.warm_tokens > 5000


def test_what_was_not_pruned_cost_what_it_cost():
    ready = Line(EAGER).prepared([user("hello")])
    usage = Usage(input_tokens=100, cache_read_tokens=90, output_tokens=5)
    money = money_of(ready, usage, PRICE, HABIT)

    assert money.paid == money.unpruned == pytest.approx(cost(usage, PRICE))


def test_r40_the_saving_is_net_of_the_cache_that_pruning_broke():
    """Unpruned, the first 5,000 tokens would have been read from the cache for a tenth of their price."""
    ready = pruned()
    usage = Usage(input_tokens=ready.context.total, output_tokens=5)
    money = money_of(ready, usage, PRICE, HABIT)
    whole = ready.context.total + ready.removed_tokens

    assert ready.removed_tokens > 4500
    assert money.paid == pytest.approx(cost(usage, PRICE))
    assert cost(Usage(input_tokens=whole, cache_read_tokens=whole, output_tokens=5), PRICE) <= money.unpruned
    assert money.unpruned < cost(Usage(input_tokens=whole, output_tokens=5), PRICE)


def test_a_client_that_uses_no_cache_is_not_credited_with_one():
    line = Line(EAGER)
    line.answered(line.prepared(SEEN[:3]), an_observation("read it", usage=Usage(input_tokens=5020, output_tokens=5)))
    ready = line.prepared(SEEN)
    money = money_of(ready, Usage(input_tokens=ready.context.total, output_tokens=5), PRICE, HABIT)
    whole = ready.context.total + ready.removed_tokens

    assert money.unpruned == pytest.approx(cost(Usage(input_tokens=whole, output_tokens=5), PRICE))


def test_a_client_that_pays_for_an_hour_would_have_paid_for_it_unpruned():
    ready = pruned()
    sent = ready.context.total
    usage = Usage(input_tokens=sent, cache_write_tokens=sent, output_tokens=5)
    hour = Usage(input_tokens=sent, cache_write_tokens=sent, hour_write_tokens=sent, output_tokens=5)
    brief, long = (money_of(ready, one, PRICE, HABIT) for one in (usage, hour))

    assert long.paid == pytest.approx(1.6 * (brief.paid - 5 * PRICE.rates.output) + 5 * PRICE.rates.output)
    assert long.unpruned > brief.unpruned


def test_an_old_cache_that_was_read_all_the_same_would_have_been_read_unpruned():
    line = Line(QUIET)
    policy, gpt = EAGER, habit_for("gpt-5.1", upstream="openai")
    history = [
        *rounds(words("stays", 4000)),
        said("read it"),
        *rounds(words("old", 5000))[1:],
        said("well"),
        user("next"),
    ]
    first = line.prepared(history[:-2])
    line.answered(first, an_observation("well", usage=Usage(input_tokens=first.context.total, output_tokens=5)))
    ready = line.prepared(history, now=5000.0, policy=policy)
    sent = ready.context.total
    price = price_for("gpt-5.1", upstream="openai")

    def unpruned(read):
        usage = Usage(input_tokens=sent, cache_read_tokens=read, output_tokens=5)
        return money_of(ready, usage, price, gpt).unpruned

    # The first edit stands behind the first message, which is short.
    assert ready.removed_tokens > 4500
    assert unpruned(sent - 20) < unpruned(1) == pytest.approx(unpruned(0))


def test_no_request_would_have_cost_more_than_the_largest_that_the_provider_takes():
    ready = pruned()
    usage = Usage(input_tokens=ready.context.total, output_tokens=5)
    tight, tighter, open_ = (
        money_of(replace(ready, context=replace(ready.context, **limits)), usage, PRICE, HABIT)
        for limits in ({"window": 3000}, {"window": 9000, "max_input": 2000}, {})
    )

    assert cost(usage, PRICE) < tighter.unpruned < tight.unpruned < open_.unpruned
    assert (tight.warm_tokens, tighter.warm_tokens) == (3000, 2000)


def test_with_other_tools_nothing_of_the_history_would_have_been_read_unpruned():
    tool = {"type": "function", "function": {"name": "read", "parameters": {}}}
    line = Line(EAGER)
    first = line.prepared(SEEN[:3], tools=[tool])
    line.answered(
        first, an_observation("read it", usage=Usage(input_tokens=5020, cache_write_tokens=5000, output_tokens=5))
    )
    usage = Usage(input_tokens=40, cache_write_tokens=40, output_tokens=5)
    same, other = (money_of(line.prepared(SEEN, tools=tools), usage, PRICE, HABIT) for tools in ([tool], [tool, tool]))

    assert other.unpruned > 5000 * PRICE.rates.cache_write > 5 * same.unpruned


def going_on(read, *, sent=7000):
    """A call behind one that was pruned, of which so much was read from the cache."""
    line = Line(EAGER)
    line.answered(
        line.prepared(SEEN[:3]),
        an_observation("read it", usage=Usage(input_tokens=sent, cache_read_tokens=sent - 500, output_tokens=5)),
    )
    ready = line.prepared(SEEN)
    pruned_input = Usage(input_tokens=sent, cache_read_tokens=0, cache_write_tokens=sent, output_tokens=5)
    line.answered(ready, an_observation("ok", usage=pruned_input))
    ready = line.prepared([*SEEN, said("ok"), user("go on")])
    usage = Usage(input_tokens=sent + 50, cache_read_tokens=read, cache_write_tokens=sent + 50 - read, output_tokens=5)
    return ready, money_of(ready, usage, PRICE, HABIT)


def test_what_the_cache_had_lost_by_itself_would_have_been_lost_unpruned():
    """As where a provider drops earlier reasoning, or a client sets its breakpoints where nothing is found again."""
    kept, warm = going_on(7000)
    _, lost = going_on(0)
    removed = kept.removed_tokens

    assert removed > 4500
    assert warm.unpruned - warm.paid == pytest.approx(removed * PRICE.rates.cache_read)
    assert lost.unpruned - lost.paid == pytest.approx(removed * PRICE.rates.cache_write)


def test_a_provider_that_says_nothing_where_nothing_was_read_has_read_nothing():
    ready, nothing = going_on(0)
    usage = Usage(input_tokens=7050, cache_write_tokens=7050, output_tokens=5)

    assert money_of(ready, usage, PRICE, HABIT).unpruned == pytest.approx(nothing.unpruned)


def test_what_was_read_beyond_the_call_before_would_have_been_read_unpruned():
    _, less = going_on(7000)
    _, more = going_on(7040)

    assert less.unpruned - more.unpruned == pytest.approx(40 * (PRICE.rates.cache_write - PRICE.rates.cache_read))


def test_what_a_call_that_stands_alone_read_would_have_been_read_unpruned():
    """Others had the same system text: that is there whatever was taken out behind it."""
    ready = Line(EAGER).prepared(SEEN)
    usage = Usage(input_tokens=9000, cache_read_tokens=5000, cache_write_tokens=4000, output_tokens=5)
    money = money_of(ready, usage, PRICE, HABIT)
    whole, removed = 9000 + ready.removed_tokens, ready.removed_tokens
    most = Usage(input_tokens=whole, cache_read_tokens=5000, cache_write_tokens=whole - 5000, output_tokens=5)

    assert removed > 4500
    assert money.paid < money.unpruned <= cost(most, PRICE)


def test_without_our_breakpoints_nothing_would_have_been_cached():
    ready = replace(Line(QUIET).prepared([user("hello")]), marked=True)
    wrote = Usage(input_tokens=2000, cache_write_tokens=2000, output_tokens=5)
    read = Usage(input_tokens=2000, cache_read_tokens=2000, output_tokens=5)
    plain = cost(Usage(input_tokens=2000, output_tokens=5), PRICE)
    first, later = (money_of(ready, usage, PRICE, HABIT) for usage in (wrote, read))

    assert first.unpruned == later.unpruned == pytest.approx(plain)
    assert later.paid < plain < first.paid


@pytest.mark.parametrize(("model", "tells"), [("gpt-5.1", True), ("claude-sonnet-4-5", False)])
def test_what_a_cache_that_matches_any_prefix_lost_in_front_of_an_edit_was_lost_by_itself(model, tells):
    """One with breakpoints may have had no entry there."""
    habit, price = habit_for(model), price_for(model)
    history = [user(words("stays", 4000)), said("I see"), *rounds(words("old", 5000)), said("well"), user("next")]
    line = Line(QUIET)
    first = line.prepared(history[:-2])
    wrote = Usage(input_tokens=first.context.total, cache_write_tokens=first.context.total, output_tokens=5)
    line.answered(first, an_observation("well", usage=wrote))
    ready = line.prepared(history, policy=EAGER)
    whole = ready.context.total + ready.removed_tokens

    def unpruned(read):
        usage = Usage(input_tokens=ready.context.total, cache_read_tokens=read, output_tokens=5)
        return money_of(ready, usage, price, habit).unpruned

    assert ready.removed_tokens > 4500
    assert (unpruned(0) == pytest.approx(cost(Usage(input_tokens=whole, output_tokens=5), price))) is tells
    assert unpruned(4000) < 0.2 * whole * price.rates.input


def test_what_stands_behind_the_last_breakpoint_would_have_been_plain_input_unpruned():
    """A client that marks its system text only."""
    ready = going_on(7000)[0]
    usage = Usage(input_tokens=7050, cache_read_tokens=2000, cache_write_tokens=0, output_tokens=5)
    money = money_of(ready, usage, PRICE, HABIT)
    whole = 7050 + ready.removed_tokens

    assert ready.removed_tokens > 4500
    assert money.unpruned == pytest.approx(
        cost(Usage(input_tokens=whole, cache_read_tokens=2000, output_tokens=5), PRICE), rel=0.01
    )
    # No later call finds more of it.
    assert money.warm_tokens == 2000


@pytest.mark.parametrize("over", [0, 100])
def test_head_that_weighs_more_than_we_think_is_not_taken_for_a_summary_that_was_read(over):
    """All that the summary took in would count as read, too."""
    line = Line(QUIET)
    history = [*rounds(*(words(f"f{number}", 1000) for number in range(5))), said("read"), user("next")]
    system = {"role": "system", "content": words("system", 2000)}
    received = line.prepared([system, *history]).received
    summary = a_summary(received, 0, -3, text="It was read.", before=5000, after=10)
    ready = line.prepared([system, *history], summary=summary)
    usage = Usage(input_tokens=2110, cache_read_tokens=2000 + over, cache_write_tokens=0, output_tokens=5)
    money = money_of(replace(ready, new_edits=()), usage, PRICE, HABIT)
    whole = 2110 + ready.removed_tokens

    assert ready.removed_tokens > 4000
    assert money.unpruned == pytest.approx(
        cost(Usage(input_tokens=whole, cache_read_tokens=2000, output_tokens=5), PRICE), rel=0.05
    )
