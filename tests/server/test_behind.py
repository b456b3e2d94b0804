"""When a summary behind a client's back is begun: so that it reads what is cached, and pays for no prefix a second time."""

import asyncio

import pytest

from proxy.demo.provider.cache import PrefixCache
from proxy.settings.values import Compact
from tests.builders import said, user
from tests.server.house import EAGER, NO_PRUNING, a_house, a_provider, filler, is_summary_call, read_so_far

pytestmark = pytest.mark.anyio

WINDOW = 8000
BEHIND = Compact(background_share=0.3, tail_share=0.1, max_summary_tokens=400)


def house_for(upstream, **more):
    return a_house(upstream, **{"window": WINDOW, "max_output": 500, "prune": NO_PRUNING, "compact": BEHIND, **more})


class LateCache(PrefixCache):
    """What a call writes can be read once its answer has begun, as Anthropic says it (docs "Prompt caching")."""

    def __init__(self, delay_s):
        super().__init__(ttl_s=300.0, minimum=1024, granularity=1)
        self._delay_s = delay_s
        self._from = {}

    def _is_warm(self, prefix, now):
        return super()._is_warm(prefix, now) and self._from[prefix.key] <= now

    def _renew(self, prefixes, now):
        super()._renew(prefixes, now)
        for prefix in prefixes:
            self._from.setdefault(prefix.key, now + self._delay_s)


def a_late_provider():
    provider = a_provider(window=WINDOW)
    provider.delay_s = 0.3
    provider.cache = LateCache(provider.delay_s)
    return provider


def summaries_in(provider):
    return [record for record in provider.received if is_summary_call(record.body)]


async def test_summary_of_a_conversation_that_was_never_seen_reads_what_its_call_has_written():
    provider = a_late_provider()
    async with house_for(provider) as house:
        await house.chat(read_so_far())
        await house.idle()

    call, summary = provider.received
    assert is_summary_call(summary.body)
    assert call.bill.read == 0
    assert summary.bill.read > 0.7 * summary.bill.input


async def test_summary_begun_in_a_call_that_rewrites_the_history_reads_the_new_one():
    provider = a_late_provider()
    history = [user(filler("Read.", 1200)), *read_so_far(rounds=1)[1:]]
    more = [said("Yes."), user(filler("More.", 3000)), said("I see."), user("So?")]
    async with house_for(provider, prune=EAGER) as house:
        await house.chat(history)
        await house.idle()
        await house.chat([*history, *more])
        await house.idle()
        turns = await house.turns("main")

    _, call, summary = provider.received
    assert [turn.edits for turn in turns] == [{}, {"clear": 1}]
    assert is_summary_call(summary.body)
    assert call.bill.read < 0.4 * call.bill.input
    assert summary.bill.read > 0.7 * summary.bill.input


async def test_summary_of_what_is_cached_already_waits_for_no_answer():
    """The call's answer comes only once the summary has been asked for."""
    provider = a_provider(window=WINDOW)
    asked, holds = asyncio.Event(), []

    async def upstream(scope, receive, send):
        if scope["type"] != "http":
            await provider(scope, receive, send)
            return
        message = await receive()
        if is_summary_call(message["body"]):
            asked.set()
        elif holds:
            await asyncio.wait_for(asked.wait(), 30)
        waiting = [message]

        async def again():
            return waiting.pop() if waiting else await receive()

        await provider(scope, again, send)

    history = read_so_far(rounds=3)
    async with house_for(upstream) as house:
        await house.chat(history)
        await house.idle()
        assert not asked.is_set()
        holds.append(True)
        answer = await house.chat([*history, said("Yes."), user(filler("More.", 1200))])
        await house.idle()

    assert answer.status_code == 200
    assert asked.is_set()


async def test_no_summary_is_begun_where_the_call_itself_is_refused():
    provider = a_provider(window=WINDOW)
    provider.refuse_next(429, {"error": {"message": "Rate limit reached for requests"}})
    async with house_for(provider) as house:
        refused = await house.chat(read_so_far())
        await house.idle()
        asked = len(summaries_in(provider))
        answer = await house.chat(read_so_far())
        await house.idle()

    assert (refused.status_code, asked) == (429, 0)
    assert (answer.status_code, len(summaries_in(provider))) == (200, 1)


async def test_large_body_of_an_answer_that_streams_is_kept_for_the_summary():
    provider = a_provider(window=WINDOW)
    async with house_for(provider) as house:
        answer = await house.chat(read_so_far(), stream=True)
        await house.idle()

    (summary,) = summaries_in(provider)
    assert answer.status_code == summary.status == 200
    assert b"file 1" in summary.body


CLAUDE = "claude-sonnet-4-5"


def read_and_talked(tokens):
    """What was read is taken out in the first call; the tail that is kept begins some messages in front of its end."""
    use = {"type": "tool_use", "id": "t0", "name": "read", "input": {}}
    found = {"type": "tool_result", "tool_use_id": "t0", "content": filler("file", 900)}
    opening = [user(filler("Read.", 1200)), {"role": "assistant", "content": [use]}, user([found])]
    rest = [said("Yes."), user("Go on."), said("I do."), user("And?")]
    return [*opening, said(filler("It says:", 1500)), user(filler("More.", tokens)), *rest]


@pytest.mark.parametrize(
    ("tokens", "at_once"), [(1400, False), (3200, True)], ids=["while there is time", "when the window fills up"]
)
async def test_summary_waits_until_its_span_reaches_a_cache_entry_of_the_edited_history(tokens, at_once):
    provider = a_provider(window=WINDOW, models=(CLAUDE,))
    history = read_and_talked(tokens)
    async with house_for(provider, prune=EAGER, auto_cache=True) as house:
        await house.messages(history, model=CLAUDE)
        await house.idle()
        early = len(summaries_in(provider))
        await house.messages([*history, said("Yes."), user(filler("So?", 800))], model=CLAUDE)
        await house.idle()
        turns = await house.turns("main")

    (summary,) = summaries_in(provider)
    assert turns[0].edits == {"clear": 1}
    assert early == int(at_once)
    assert (summary.bill.read > 0.7 * summary.bill.input) is not at_once


async def test_client_that_changes_its_first_message_at_each_call_pays_for_one_summary_at_most():
    provider = a_provider(window=WINDOW)
    async with house_for(provider) as house:
        for number in range(4):
            first, *rest = read_so_far()
            await house.chat([user(f"It is {number} o'clock. {first['content']}"), *rest])
            await house.idle()

    assert len(summaries_in(provider)) == 1
