import asyncio

import pytest

from proxy.errors import StoreError
from proxy.server.learning import Estimates, treatments
from proxy.server.settling import settled
from proxy.settings.values import Estimate, ModelSettings, Settings
from proxy.tokens.fit import Growth
from proxy.tokens.learn import NOTHING_LEARNED, Sample, encode, learned_name
from tests.builders import a_turn
from tests.server.house import MODEL, a_house, answering
from tests.server.stores import Failing, a_store
from tests.stores.conftest import Clock
from tests.tokens.test_treatment import taught as taught_treatment

pytestmark = pytest.mark.anyio

WHO = ("openai", "m", "o200k_base")


def a_sample(actual=1300, tokens=1000):
    return Sample(growth=Growth(tokens, 2, 1), actual=actual, anchored=True, usable=True)


async def taught(estimates, times=1):
    for _ in range(times):
        await estimates.teach(*WHO, a_sample())


async def test_what_was_read_once_is_known_without_the_store():
    estimates = Estimates(a_store(), enabled=True)
    assert estimates.known(*WHO) is None
    await estimates.get(*WHO)
    await taught(estimates)

    assert estimates.known(*WHO) is await estimates.get(*WHO)
    assert estimates.known(*WHO).samples == 1
    assert Estimates(a_store(), enabled=False).known(*WHO) == NOTHING_LEARNED


async def test_what_was_taught_is_known_and_survives_a_restart():
    store = a_store()
    estimates = Estimates(store, enabled=True)
    assert await estimates.get(*WHO) == NOTHING_LEARNED
    await taught(estimates, 10)
    known = await estimates.get(*WHO)

    assert known.factor > 1.1
    assert await Estimates(store, enabled=True).get(*WHO) == known


async def test_r14_lessons_belong_to_an_upstream_a_model_and_an_encoding():
    estimates = Estimates(a_store(), enabled=True)
    await taught(estimates, 10)

    for who in (("other", "m", "o200k_base"), ("openai", "n", "o200k_base"), ("openai", "m", "cl100k_base")):
        assert await estimates.get(*who) == NOTHING_LEARNED


@pytest.mark.parametrize(("seconds_a_call", "later"), [(1.0, 2), (0.02, 1)])
async def test_later_lessons_are_written_many_at_a_time_and_not_too_often(seconds_a_call, later):
    store, clock = a_store(), Clock(1000.0)
    written = []
    real = store.learn

    async def learn(name, value):
        written.append(name)
        await real(name, value)

    store.learn = learn
    estimates = Estimates(store, enabled=True, clock=clock)
    for _ in range(96):
        clock.now += seconds_a_call
        await taught(estimates)

    assert len(written) == 16 + later


async def test_calls_that_settle_at_the_same_time_do_not_all_write():
    store = a_store()
    written = []
    real = store.learned

    async def slowly(name):
        written.append(name)
        await asyncio.sleep(0.05)
        return await real(name)

    store.learned = slowly
    estimates = Estimates(store, enabled=True)
    await asyncio.gather(*(estimates.teach(*WHO, a_sample()) for _ in range(60)))
    assert len(written) == 1
    # What came while that was under way came along.
    store.learned = real
    assert (await Estimates(store, enabled=True).get(*WHO)).samples == 60


async def test_replicas_learn_from_each_others_calls():
    store = a_store()
    one, other = Estimates(store, enabled=True), Estimates(store, enabled=True)
    for number in range(8):
        await one.get(*WHO)
        await other.get(*WHO)
        await one.teach(*WHO, a_sample(actual=1300 + number))
        await other.teach(*WHO, a_sample(actual=1301 + number, tokens=1001))
    new = await Estimates(store, enabled=True).get(*WHO)

    assert new.samples == 16
    assert len(new.recent) == 16
    assert await other.get(*WHO) == new


async def test_samples_whose_write_was_overtaken_come_with_the_next_one():
    store = a_store()
    one, other = Estimates(store, enabled=True), Estimates(store, enabled=True)
    await one.teach(*WHO, a_sample())
    overtaken = await store.learned(learned_name(*WHO))
    await other.teach(*WHO, a_sample(tokens=2000, actual=2600))
    await store.learn(learned_name(*WHO), overtaken)
    await other.teach(*WHO, a_sample(tokens=3000, actual=3900))
    new = await Estimates(store, enabled=True).get(*WHO)

    assert sorted(seen.growth.tokens for seen in new.recent) == [1000, 2000, 3000]


async def test_samples_that_a_failing_store_did_not_take_are_counted_when_it_is_back():
    store = Failing("learn")
    estimates = Estimates(store, enabled=True)
    for _ in range(3):
        with pytest.raises(StoreError):
            await estimates.teach(*WHO, a_sample())
    store = estimates._ledger = a_store()
    await taught(Estimates(store, enabled=True), 5)
    await estimates.teach(*WHO, a_sample(tokens=2000, actual=2600))

    assert (await Estimates(store, enabled=True).get(*WHO)).samples == 9


async def test_switched_off_nothing_is_learned_or_asked():
    estimates = Estimates(Failing("learn", "learned"), enabled=False)
    await taught(estimates, 5)

    assert await estimates.get(*WHO) == NOTHING_LEARNED


async def test_without_a_store_this_process_goes_on_learning():
    estimates = Estimates(Failing("learn", "learned"), enabled=True)
    assert await estimates.get(*WHO) == NOTHING_LEARNED
    for _ in range(10):
        with pytest.raises(StoreError):
            await estimates.teach(*WHO, a_sample())

    assert (await estimates.get(*WHO)).samples == 10


async def test_an_unusable_call_teaches_nothing():
    store = Failing("learn")
    estimates = Estimates(store, enabled=True)
    await estimates.teach(*WHO, Sample(growth=Growth(1000, 2, 1), actual=9000, anchored=True, usable=False))

    assert await estimates.get(*WHO) == NOTHING_LEARNED


async def test_reports_read_the_treatment_of_reasoning_under_the_encoding_that_the_settings_choose():
    store = a_store()
    for who, kept in (
        (("openai", "m", "o200k_base"), 1),
        (("openai", "gpt-4", "cl100k_base"), -1),
        (("groq", "wished", "cl100k_base"), 0),
    ):
        await store.learn(learned_name(*who), encode(taught_treatment(kept)))
    settings = Settings(models={"wished": ModelSettings(tokenizer="cl100k_base")})
    turns = [a_turn(model=model) for model in ("m", "m", "gpt-4", "new")]
    turns += [a_turn(upstream="groq", model="wished"), a_turn(model="sums", purpose="summary")]

    assert await treatments(store, settings, turns) == {
        ("openai", "m"): "kept",
        ("openai", "gpt-4"): "dropped",
        ("openai", "new"): "not known yet",
        ("groq", "wished"): "as sent",
    }
    wishing = Settings(estimate=Estimate(tokenizer="cl100k_base"))
    assert await treatments(store, wishing, turns[:1]) == {("openai", "m"): "not known yet"}


async def test_models_that_a_client_makes_up_push_out_others_which_are_read_again(monkeypatch):
    monkeypatch.setattr("proxy.server.bounded.MOST_MODELS", 3)
    estimates = Estimates(a_store(), enabled=True)
    await taught(estimates, 10)
    known = await estimates.get(*WHO)
    for number in range(20):
        await estimates.teach("openai", f"made-up-{number}", "o200k_base", a_sample())

    assert estimates.known(*WHO) is None
    assert await estimates.get(*WHO) == known


async def test_what_a_provider_keeps_in_front_of_some_calls_is_not_expected_of_others():
    async def upstream(scope, receive, send):
        if scope["type"] != "http":
            return
        tokens = 9_000 if b"pmpt_1" in (await receive())["body"] else 10
        usage = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}
        answer = {"id": "r", "object": "response", "status": "completed", "output": [said], "usage": usage}
        await answering(200, answer)(receive, send)

    async with a_house(upstream) as house:
        for number in range(4):
            for more in ({"prompt": {"id": "pmpt_1"}}, {}):
                said = [{"role": "user", "content": f"question {number} {sorted(more)}"}]
                await house.http.post("/v1/responses", json={"model": MODEL, "input": said, **more})
                await settled()
        turns = await house.turns()

    assert all(8_990 < turn.estimated < 9_010 for turn in turns[2::2])
    assert all(turn.estimated < 30 for turn in turns[1::2])
