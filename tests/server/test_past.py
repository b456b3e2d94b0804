import msgspec
import pytest
from structlog.testing import capture_logs

from proxy.exchange.receive import NO_MEMORY
from proxy.ledger.store import Settlement
from proxy.server.past import remember
from proxy.tokens.usage import Usage
from tests.builders import a_clear, a_received, a_turn, an_anchor, plan_of, rounds, said, user
from tests.server.stores import Failing, a_store

pytestmark = pytest.mark.anyio

HISTORY = [*rounds("x" * 400), said("read"), user("next")]
USED = Usage(input_tokens=100, output_tokens=10)


async def fill(store):
    """The second request's anchor has a plan and no usage yet; the first one's has usage and another plan."""
    received = a_received(HISTORY)
    first, second = plan_of(a_clear(received, 2)), plan_of(a_clear(received, 2), a_clear(received, 0))
    measured = an_anchor(key=received.keys[2], usage=USED, plan_id=first.plan_id())
    await store.decide(msgspec.structs.replace(measured, usage=None), first)
    await store.settle(Settlement(measured, a_turn()))
    await store.decide(an_anchor(key=received.keys[-1], turn=2, plan_id=second.plan_id()), second)
    return received, first, second


async def test_the_deepest_anchors_and_their_plans_are_found():
    store = a_store()
    received, first, second = await fill(store)
    memory = await remember(store, received)

    assert (memory.line.turn, memory.line_at, memory.plan) == (2, 4, second)
    assert (memory.measured.usage, memory.measured_at, memory.measured_plan) == (USED, 2, first)


async def test_one_batched_read_is_all_where_there_is_no_plan():
    store = a_store()
    asked = []
    real = store.anchors

    async def anchors(keys):
        asked.append(len(keys))
        return await real(keys)

    store.anchors = anchors
    received = a_received(HISTORY)
    await remember(store, received)

    assert asked == [len(received.candidates)] == [3]


async def test_an_empty_history_asks_nobody():
    assert await remember(Failing("anchors"), a_received([])) == NO_MEMORY


@pytest.mark.parametrize("method", ["anchors", "plan"])
async def test_without_the_store_a_call_is_a_first_one(method):
    store = Failing(method)
    store.mended = True
    received, _, _ = await fill(store)
    store.mended = False
    with capture_logs() as logs:
        memory = await remember(store, received)

    assert memory == NO_MEMORY
    assert [entry["stage"] for entry in logs] == ["recall"]
