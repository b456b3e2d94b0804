"""What every store promises, run over all of them. A store that fails here breaks calls of users."""

import asyncio
import contextlib
import random

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.errors import StoreError
from proxy.ledger.originals import MOST_BYTES, MOST_SESSION_BYTES, an_original
from proxy.ledger.store import Settlement, TurnQuery
from proxy.stores import open_resilient, open_store
from proxy.tokens.usage import NOT_REPORTED
from tests.stores.conftest import TTL_S, a_plan, a_turn, a_usage, an_anchor, key

pytestmark = pytest.mark.anyio


BARE = ["memory", "sqlite", "redis", "sentinel", pytest.param("cluster", marks=pytest.mark.slow)]
STORES = [
    *BARE,
    "resilient memory",
    "resilient sqlite",
    "resilient redis",
    "resilient sentinel",
    pytest.param("resilient cluster", marks=pytest.mark.slow),
]


def url_of(kind, request):
    """The URL of an empty store of this kind."""
    if kind == "memory":
        return "memory://"
    if kind == "sqlite":
        return f"sqlite://{request.getfixturevalue('tmp_path')}/deep/state.db?timeout_s=10"
    if kind == "sentinel":
        request.getfixturevalue("shared_redis").cli("flushall")
        return f"{request.getfixturevalue('shared_sentinel').url}?timeout_s=10"
    server = request.getfixturevalue(f"shared_{kind}")
    server.cli("flushall")
    # Patient, since the machine may be busy; the short patience has its own tests.
    return f"{server.url}?timeout_s=10"


def opened_as(name, request, ttl_s, clock):
    shelter, _, kind = name.rpartition(" ")
    url = url_of(kind, request)
    return (open_resilient if shelter else open_store)(url, ttl_s=ttl_s, clock=clock)


@pytest.fixture(params=STORES)
async def store(request, clock):
    opened = opened_as(request.param, request, TTL_S, clock)
    yield opened
    await opened.close()


@pytest.fixture(params=STORES)
async def ageing(request, clock):
    """A store, and what lets a share of its ttl pass: Redis lives by its own clock, so there the time is real."""
    real = request.param.removeprefix("resilient ") not in ("memory", "sqlite")
    ttl_s = 1.0 if real else TTL_S
    opened = opened_as(request.param, request, ttl_s, clock)

    async def pass_time(share):
        clock.now += share * ttl_s
        if real:
            await asyncio.sleep(share * ttl_s)

    yield opened, pass_time
    await opened.close()


# Anchors


async def test_what_was_settled_is_found_again_whole(store):
    anchor = an_anchor("a", usage=a_usage(), server_edits=True)
    await store.settle(Settlement(anchor, a_turn()))

    assert await store.anchors([key("a")]) == [anchor]


async def test_what_was_decided_is_found_again_with_its_plan(store):
    plan = a_plan("one", "two")
    anchor = an_anchor("a", plan=plan)
    await store.decide(anchor, plan)

    assert await store.anchors([key("a")]) == [anchor]
    assert await store.plan(anchor.plan_id) == plan


async def test_answers_stand_in_the_order_of_the_keys_with_none_for_the_unknown(store):
    one, two = an_anchor("one"), an_anchor("two", turn=2)
    await store.decide(one, EMPTY_PLAN)
    await store.settle(Settlement(two, a_turn()))

    assert await store.anchors([key("two"), key("no"), key("one"), key("two")]) == [two, None, one, two]
    assert await store.anchors([]) == []


async def test_an_unknown_plan_is_none_and_the_empty_id_is_the_empty_plan(store):
    assert await store.plan(b"x" * 16) is None
    assert await store.plan(b"") == EMPTY_PLAN


@pytest.mark.parametrize("size", [10, 5_000, 400_000])
async def test_a_plan_of_any_size_comes_back_equal(store, size):
    plan = a_plan("zeile ü\n" * (size // 8))
    await store.decide(an_anchor("a", plan=plan), plan)

    assert await store.plan(plan.plan_id()) == plan


async def test_equal_plans_of_two_conversations_are_one(store):
    plan = a_plan("same")
    await store.decide(an_anchor("a", plan=plan), plan)
    await store.decide(an_anchor("b", plan=plan), plan)

    assert await store.plan(plan.plan_id()) == plan


# Retries, forks, branches


async def test_a_retry_overwrites_its_anchor_and_nothing_drifts(store):
    plan = a_plan("x")
    for attempt in range(2):
        await store.decide(an_anchor("a", plan=plan, at=100.0 + attempt), plan)
        await store.settle(Settlement(an_anchor("a", plan=plan, at=100.0 + attempt, usage=a_usage()), a_turn()))

    (found,) = await store.anchors([key("a")])
    assert found == an_anchor("a", plan=plan, at=101.0, usage=a_usage())
    assert [turn.turn for turn in await store.turns(TurnQuery(session="s-1"))] == [1]


async def test_a_settled_call_overwrites_its_decision(store):
    plan = a_plan("x")
    await store.decide(an_anchor("a", plan=plan), plan)
    await store.settle(Settlement(an_anchor("a", plan=plan, usage=a_usage()), a_turn()))
    assert (await store.anchors([key("a")]))[0].usage == a_usage()

    await store.decide(an_anchor("a", plan=plan, at=9.0), plan)
    assert (await store.anchors([key("a")]))[0].usage is None


async def test_a_regeneration_from_the_middle_finds_the_older_anchor(store):
    for turn, name in enumerate(["a", "b", "c"], 1):
        await store.settle(Settlement(an_anchor(name, turn=turn, usage=a_usage(input_tokens=turn * 100)), a_turn(turn)))

    # The client went back behind turn 2 and asks something else: newest boundary first, "fork" was never sent.
    fork, middle, first = await store.anchors([key("fork"), key("b"), key("a")])
    assert fork is None
    assert (middle.turn, middle.usage.input_tokens) == (2, 200)
    assert first.turn == 1


async def test_two_interleaved_branches_keep_their_own_figures_and_plans(store):
    plans = {"left": a_plan("left"), "right": a_plan("right")}
    await store.settle(Settlement(an_anchor("root", usage=a_usage(input_tokens=10)), a_turn(1)))
    for depth in range(3):
        for branch, plan in plans.items():
            usage = a_usage(input_tokens=(1000 if branch == "left" else 5000) + depth)
            anchor = an_anchor(f"{branch}{depth}", plan=plan, turn=depth + 2, usage=usage)
            await store.decide(anchor, plan)
            await store.settle(Settlement(anchor, a_turn(depth + 2, session=branch)))

    for branch, base in (("left", 1000), ("right", 5000)):
        found = await store.anchors([key(f"{branch}{depth}") for depth in (2, 1, 0)] + [key("root")])
        assert [anchor.usage.input_tokens for anchor in found] == [base + 2, base + 1, base, 10]
        assert await store.plan(found[0].plan_id) == plans[branch]


async def test_a_call_that_must_not_advance_leaves_its_row_only(store):
    await store.settle(Settlement(None, a_turn(outcome="truncated")))

    assert await store.anchors([key("a")]) == [None]
    assert [turn.outcome for turn in await store.turns(TurnQuery())] == ["truncated"]


async def test_many_calls_at_once_all_arrive(store):
    async def call(number):
        plan = a_plan(f"text {number % 7}")
        anchor = an_anchor(f"k{number}", plan=plan, session=f"s{number % 5}", turn=number)
        await store.decide(anchor, plan)
        await store.settle(Settlement(an_anchor(f"k{number}", plan=plan, turn=number, usage=a_usage()), a_turn(number)))

    await asyncio.gather(*(call(number) for number in range(200)))

    found = await store.anchors([key(f"k{number}") for number in range(200)])
    assert [anchor.turn for anchor in found] == list(range(200))
    assert all(anchor.usage == a_usage() for anchor in found)
    assert len(await store.turns(TurnQuery())) == 200


# Time


async def test_everything_expires(ageing):
    store, pass_time = ageing
    plan = a_plan("x")
    await store.decide(an_anchor("a", plan=plan), plan)
    await store.settle(Settlement(an_anchor("b", plan=plan), a_turn()))
    await store.learn("factor", b"1.1")
    assert len(await store.sessions(10)) == 1

    await pass_time(1.1)
    assert await store.anchors([key("a"), key("b")]) == [None, None]
    assert await store.plan(plan.plan_id()) is None
    assert await store.turns(TurnQuery()) == []
    assert await store.sessions(10) == []
    assert await store.learned("factor") is None


async def test_a_plan_lives_as_long_as_the_conversation_that_uses_it(ageing):
    store, pass_time = ageing
    plan = a_plan("x")
    await store.decide(an_anchor("a", plan=plan), plan)
    for turn in range(3):
        await pass_time(0.6)
        await store.settle(Settlement(an_anchor(f"t{turn}", plan=plan), a_turn(turn)))
        # In so much time what is written behind is written; here a report sees to that.
        assert await store.turns(TurnQuery())

    assert await store.plan(plan.plan_id()) == plan


async def test_a_clock_that_is_set_back_loses_and_breaks_nothing(store, clock):
    await store.settle(Settlement(an_anchor("a"), a_turn(1)))
    clock.now -= TTL_S / 2
    await store.settle(Settlement(an_anchor("b"), a_turn(2)))

    assert await store.anchors([key("a"), key("b")]) == [an_anchor("a"), an_anchor("b")]
    assert len(await store.turns(TurnQuery())) == 2


# Rows


async def test_rows_come_back_whole_and_newest_first(store):
    rows = [a_turn(number, outcome="error", error_code=529, cost=0.25, window=200_000) for number in (2, 1, 3)]
    for row in rows:
        await store.settle(Settlement(None, row))

    assert await store.turns(TurnQuery()) == [rows[2], rows[0], rows[1]]


async def test_a_query_picks_session_time_and_number(store):
    for number in range(10):
        await store.settle(
            Settlement(None, a_turn(number, session="even" if number % 2 == 0 else "odd", at=100.0 + number))
        )

    def picked(turns):
        return [turn.turn for turn in turns]

    assert picked(await store.turns(TurnQuery(session="odd"))) == [9, 7, 5, 3, 1]
    assert picked(await store.turns(TurnQuery(limit=3))) == [9, 8, 7]
    assert picked(await store.turns(TurnQuery(since=107.0))) == [9, 8, 7]
    assert picked(await store.turns(TurnQuery(before=102.0))) == [1, 0]
    assert picked(await store.turns(TurnQuery(session="even", before=108.0, since=103.0, limit=1))) == [6]
    assert picked(await store.turns(TurnQuery(session="none"))) == []
    assert picked(await store.turns(TurnQuery(limit=0))) == []


async def test_pages_of_before_see_every_row_once(store):
    for number in range(25):
        await store.settle(Settlement(None, a_turn(number, session=f"s{number % 3}", at=100.0 + number)))

    seen, before = [], None
    while page := await store.turns(TurnQuery(limit=7, before=before)):
        seen += [turn.turn for turn in page]
        before = page[-1].at

    assert seen == list(range(24, -1, -1))


async def test_a_session_is_summed_over_its_rows(store):
    await store.settle(Settlement(None, a_turn(1, session="s", label="old", model="m1", at=10.0, removed_tokens=5)))
    await store.settle(
        Settlement(None, a_turn(2, session="s", label="new", model="m2", at=20.0, usage=a_usage(input_tokens=None)))
    )
    refused = a_turn(3, session="s", model="m2", at=21.0, usage=NOT_REPORTED, outcome="error")
    await store.settle(Settlement(None, refused))
    await store.settle(Settlement(None, a_turn(1, session="t", at=15.0)))

    first, second = await store.sessions(10)
    assert (first.session, first.label, first.model, first.upstream) == ("s", "new", "m2", "openai")
    assert (first.turns, first.first_at, first.last_at) == (3, 10.0, 21.0)
    assert (first.input_tokens, first.removed_tokens) == (1200, 12)
    assert (second.session, second.turns) == ("t", 1)


async def test_a_summary_call_of_ours_is_a_row_of_its_session_and_no_turn_of_it(store):
    await store.settle(Settlement(None, a_turn(1, session="s", label="mine", at=10.0)))
    await store.settle(Settlement(None, a_turn(0, session="s", model="cheap", purpose="summary", at=20.0)))

    (line,) = await store.sessions(10)
    assert (line.turns, line.label, line.model, line.last_at, line.input_tokens) == (1, "mine", "gpt-5", 10.0, 1200)
    assert [turn.purpose for turn in await store.turns(TurnQuery(session="s"))] == ["summary", "main"]


async def test_sessions_with_the_newest_calls_come_first_and_no_more_than_asked(store):
    for number in range(6):
        await store.settle(Settlement(None, a_turn(1, session=f"s{number}", at=100.0 + number)))
    await store.settle(Settlement(None, a_turn(2, session="s0", at=200.0)))

    assert [line.session for line in await store.sessions(3)] == ["s0", "s5", "s4"]
    assert await store.sessions(0) == []


# Originals


def an_original_of(name, text="what stood there"):
    return an_original(key(name), text)


async def test_originals_come_back_in_the_order_that_is_asked_with_none_for_the_unknown(store):
    one, two = an_original_of("one"), an_original_of("two", "line\n" * 3000 + "\ud800 ünïcode")
    await store.settle(Settlement(an_anchor("a"), a_turn(1, session="s"), [one]))
    await store.settle(Settlement(None, a_turn(2, session="s"), [two]))

    assert await store.originals("s", [key("two"), key("?"), key("one")]) == [two, None, one]
    assert await store.originals("other", [key("one")]) == [None]
    assert await store.originals("s", []) == []


async def test_an_original_that_is_kept_again_is_kept_once(store):
    await store.settle(Settlement(None, a_turn(1, session="s"), [an_original_of("one", "first")]))
    await store.settle(Settlement(None, a_turn(2, session="s"), [an_original_of("one", "second")]))

    (found,) = await store.originals("s", [key("one")])
    assert found.text == "second"


async def test_a_conversations_oldest_originals_go_when_its_room_is_full(store, clock):
    """Text that cannot be compressed, so that every store holds the same."""
    noise = random.Random(7)
    names = [f"n{number}" for number in range(MOST_SESSION_BYTES // MOST_BYTES * 3)]
    await store.settle(Settlement(None, a_turn(1, session="other"), [an_original_of("n0")]))
    for turn, name in enumerate(names):
        clock.now += 1.0
        text = "".join(map(chr, noise.choices(range(32, 127), k=MOST_BYTES)))
        await store.settle(Settlement(None, a_turn(turn + 1, session="s"), [an_original_of(name, text)]))

    found = await store.originals("s", [key(name) for name in names])
    first = next(number for number, original in enumerate(found) if original is not None)
    assert first > len(names) // 4
    assert None not in found[first:]
    assert sum(len(original.text) for original in found[first:]) <= 1.5 * MOST_SESSION_BYTES
    assert len(found) - first >= MOST_SESSION_BYTES // MOST_BYTES - 1
    assert None not in await store.originals("other", [key("n0")])


async def test_originals_expire(ageing):
    store, pass_time = ageing
    await store.settle(Settlement(None, a_turn(1, session="s"), [an_original_of("one")]))
    assert None not in await store.originals("s", [key("one")])

    await pass_time(1.2)
    assert await store.originals("s", [key("one")]) == [None]


# Learned values


async def test_a_learned_value_is_replaced_and_kept_apart_from_others(store):
    await store.learn("factor/openai/gpt-5", b"1.02")
    await store.learn("factor/openai/gpt-5", b"\x00\xff")
    await store.learn("window", b"")

    assert await store.learned("factor/openai/gpt-5") == b"\x00\xff"
    assert await store.learned("window") == b""
    assert await store.learned("unknown") is None


# What a hostile or broken client can put into a row


async def test_odd_names_and_huge_numbers_are_kept_or_refused_and_the_store_goes_on(store):
    for odd in (
        a_turn(1, session="x\0y {z}*:"),
        a_turn(2, label="\ud800"),
        a_turn(3, usage=a_usage(input_tokens=2**70)),
    ):
        # Stores in memory have no trouble with either; the others say so.
        with contextlib.suppress(StoreError):
            await store.settle(Settlement(None, odd))
    await store.settle(Settlement(an_anchor("after"), a_turn(4)))

    assert await store.anchors([key("after")]) == [an_anchor("after")]
    turns = await store.turns(TurnQuery())
    assert {1, 4} <= {turn.turn for turn in turns}


async def test_calls_that_are_settled_together_are_all_kept(store):
    calls = [Settlement(an_anchor(f"k{number}", turn=number), a_turn(number)) for number in range(1, 4)]
    removed = an_original(key("o"), "what stood there")
    await store.settle(*calls, Settlement(None, a_turn(4), [removed]))

    assert await store.anchors([call.anchor.key for call in calls]) == [call.anchor for call in calls]
    assert [turn.turn for turn in await store.turns(TurnQuery())] == [4, 3, 2, 1]
    assert await store.originals("s-1", [removed.id]) == [removed]


async def test_one_that_cannot_be_kept_does_not_keep_those_that_are_settled_with_it_from_it(store):
    odd = Settlement(an_anchor("odd", session="\ud800"), a_turn(2, label="\ud800"))
    calls = [Settlement(an_anchor(f"k{number}"), a_turn(number)) for number in (1, 3)]
    with contextlib.suppress(StoreError):
        await store.settle(calls[0], odd, calls[1])

    assert await store.anchors([call.anchor.key for call in calls]) == [call.anchor for call in calls]
    assert {1, 3} <= {turn.turn for turn in await store.turns(TurnQuery())}


async def test_a_call_is_found_under_its_other_keys(store):
    plan = a_plan()
    await store.decide(an_anchor("a", plan=plan), plan)
    others = (an_anchor("b", plan=plan, usage=a_usage()), an_anchor("c", usage=a_usage()))
    await store.settle(Settlement(an_anchor("a", plan=plan, usage=a_usage()), a_turn(1), others=others))

    assert await store.anchors([key("b"), key("c")]) == list(others)
    assert await store.plan(others[0].plan_id) == plan
    assert len(await store.turns(TurnQuery())) == 1
