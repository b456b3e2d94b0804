import asyncio
import re
import socket
import time

import pytest

from proxy.conversation.edit import Plan
from proxy.errors import ProxyError, SettingsError
from proxy.ledger.originals import an_original, original_id
from proxy.ledger.store import Settlement, TurnQuery
from proxy.server.control import guard
from proxy.server.inquiry import Inquiry
from proxy.settings.values import Server, Settings, Store
from proxy.stores import open_store
from proxy.tokens.learn import encode, learned_name
from proxy.tokens.usage import Usage
from tests.builders import a_clear, a_received, a_turn, an_anchor, rounds
from tests.server.control.lodge import a_lodge
from tests.server.engines.raw import answering, raw_server
from tests.tokens.test_treatment import taught

pytestmark = pytest.mark.anyio

NOW = time.time()


def a_file(tmp_path, *turns):
    """Settings whose store holds these rows."""
    settings = Settings(store=Store(url=f"sqlite://{tmp_path}/state.db?timeout_s=10"))

    async def fill():
        ledger = open_store(settings.store.url, ttl_s=3600.0, clock=time.time)
        for turn in turns:
            await ledger.settle(Settlement(None, turn))
        await ledger.turns(TurnQuery())
        await ledger.close()

    asyncio.run(fill())
    return settings


def measured(**more):
    return a_turn(**{"at": NOW, "estimated": 101, "usage": Usage(input_tokens=100), "cost": 1.0, **more})


def test_the_store_is_read_without_a_running_proxy(tmp_path):
    settings = a_file(tmp_path, measured(session="old", at=NOW - 50), measured(session="new", turn=7))
    inquiry = Inquiry(settings, "")

    assert [row.session for row in inquiry.sessions(10).sessions] == ["new", "old"]
    assert (inquiry.context("").session, inquiry.context("").turn) == ("new", 7)
    assert inquiry.context("old").session == "old"
    assert inquiry.accuracy(0).rows[0].calls == 2
    assert inquiry.savings(0).total.paid == 2.0


@pytest.mark.parametrize("key", ["", "correct horse battery staple"])
def test_edits_are_read_with_what_they_replaced_also_from_a_sealed_store(tmp_path, key):
    received = a_received(rounds("x" * 400, "y"))
    edit = a_clear(received, 2)
    plan = Plan((edit,))
    settings = Settings(store=Store(url=f"sqlite://{tmp_path}/state.db?timeout_s=10", key=key))

    async def fill():
        ledger = open_store(settings.store.url, ttl_s=3600.0, clock=time.time, key=key)
        await ledger.decide(an_anchor(plan_id=plan.plan_id()), plan)
        originals = [an_original(original_id(edit), "x" * 400)]
        await ledger.settle(Settlement(None, measured(plan_id=plan.plan_id()), originals))
        await ledger.close()

    asyncio.run(fill())
    found = Inquiry(settings, "").edits("")

    assert [(row.before, row.after) for row in found.edits] == [("x" * 400, "[gone]")]
    with pytest.raises(ProxyError, match="no calls of session 'nobody'"):
        Inquiry(settings, "").edits("nobody")


@pytest.mark.parametrize("command", ["context", "edits"])
def test_a_session_is_named_by_as_much_of_its_id_as_no_other_has(tmp_path, command):
    ids = ["3f2a", "3f2ab1", "3f77", "c0de"]
    rows = [measured(session=session, at=NOW - place) for place, session in enumerate(ids)]
    ask = getattr(Inquiry(a_file(tmp_path, *rows), ""), command)

    assert ask("c").session == "c0de"
    assert ask("3f2ab").session == "3f2ab1"
    # A whole id is meant even where others begin with it.
    assert ask("3f2a").session == "3f2a"
    with pytest.raises(ProxyError, match=r"3 sessions begin with '3f': 3f2a, 3f2ab1, 3f77$"):
        ask("3f")
    with pytest.raises(ProxyError, match="no calls of session '0de'"):
        ask("0de")


def test_of_many_sessions_that_begin_so_the_newest_are_named(tmp_path):
    rows = [measured(session=f"s{number}", at=NOW - number) for number in range(20)]

    with pytest.raises(ProxyError, match=r"20 sessions begin with 's': s0, s1, s2, s3, s4, s5, s6, s7 and 12 more$"):
        Inquiry(a_file(tmp_path, *rows), "").context("s")


def test_only_the_last_hours_are_looked_at_when_that_is_asked(tmp_path):
    inquiry = Inquiry(a_file(tmp_path, measured(at=NOW - 7200), measured(turn=2)), "")

    assert inquiry.accuracy(1).rows[0].calls == 1
    assert inquiry.savings(1).total.calls == 1
    assert inquiry.savings(3).total.calls == 2


def test_what_is_not_there_is_said_in_one_line(tmp_path):
    inquiry = Inquiry(a_file(tmp_path), "")

    with pytest.raises(ProxyError, match="no calls are recorded yet"):
        inquiry.context("")
    with pytest.raises(ProxyError, match="no calls of session 'x'"):
        inquiry.context("x")


def test_a_store_in_memory_can_only_be_asked_through_its_proxy():
    with pytest.raises(SettingsError, match="--url"):
        Inquiry(Settings(store=Store(url="memory://")), "")


def test_accuracy_from_the_store_tells_what_became_of_earlier_reasoning(tmp_path):
    settings = a_file(tmp_path, measured(), measured(turn=2, model="other"))

    async def learn():
        ledger = open_store(settings.store.url, ttl_s=3600.0, clock=time.time)
        await ledger.learn(learned_name("openai", "m", "o200k_base"), encode(taught(1)))
        await ledger.close()

    asyncio.run(learn())
    rows = Inquiry(settings, "").accuracy(0).rows

    assert {row.model: row.reasoning for row in rows} == {"m": "kept", "other": "not known yet"}


async def test_a_running_proxy_answers_the_same():
    async with a_lodge() as lodge:
        session = (await lodge.chat([{"role": "user", "content": "hello"}])).headers["x-context-session"]
        inquiry = Inquiry(Settings(store=Store(url="memory://")), lodge.base + "/")

        assert (await asyncio.to_thread(inquiry.context, "")).session == session
        assert (await asyncio.to_thread(inquiry.edits, "")).session == session
        assert (await asyncio.to_thread(inquiry.sessions, 5)).sessions[0].turns == 1
        assert (await asyncio.to_thread(inquiry.accuracy, 24)).rows[0].reasoning == "not known yet"
        assert (await asyncio.to_thread(inquiry.savings, 0)).total.calls == 1
        with pytest.raises(ProxyError, match="no calls of session 'nobody'"):
            await asyncio.to_thread(inquiry.context, "nobody")


async def test_a_running_proxy_is_asked_by_the_beginning_of_an_id():
    async with a_lodge() as lodge:
        # One more than there are first digits: two of them begin alike.
        chats = [await lodge.chat([{"role": "user", "content": f"task {number}"}]) for number in range(17)]
        ids = [chat.headers["x-context-session"] for chat in chats]
        inquiry = Inquiry(Settings(store=Store(url="memory://")), lodge.base)
        alike = next(digit for digit in "0123456789abcdef" if sum(one.startswith(digit) for one in ids) > 1)

        assert (await asyncio.to_thread(inquiry.context, ids[0][:-1])).session == ids[0]
        assert (await asyncio.to_thread(inquiry.edits, ids[1][:-1])).session == ids[1]
        with pytest.raises(ProxyError, match=rf"\d sessions begin with '{alike}': {alike}"):
            await asyncio.to_thread(inquiry.context, alike)
        with pytest.raises(ProxyError, match="no calls of session 'task/"):
            await asyncio.to_thread(inquiry.context, "task/" * 100)


async def test_the_admin_token_goes_along(monkeypatch):
    async with a_lodge(server=Server(admin_token="hush")) as lodge:
        await lodge.chat([{"role": "user", "content": "hello"}])
        # As if this were another machine: only the token opens then.
        monkeypatch.setattr(guard, "_is_local", lambda _scope: False)
        inquiry = Inquiry(Settings(server=Server(admin_token="hush")), lodge.base)
        assert (await asyncio.to_thread(inquiry.sessions, 5)).sessions
        with pytest.raises(ProxyError, match="answers 401"):
            await asyncio.to_thread(Inquiry(Settings(), lodge.base).sessions, 5)


def test_nobody_there_is_said_in_one_line(free_port):
    with pytest.raises(ProxyError, match=r"no answer from .*ConnectError"):
        Inquiry(Settings(), f"http://127.0.0.1:{free_port}").sessions(1)


@pytest.mark.parametrize("url", ["nonsense", "http://[", "ftp://127.0.0.1"])
def test_an_address_that_is_none_is_said_in_one_line(url):
    with pytest.raises(ProxyError, match=rf"--url: .*{re.escape(repr(url))}"):
        Inquiry(Settings(), url).sessions(1)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "is not a proxy of this version"),
        (b"HTTP/1.1 404 NO\r\ncontent-length: 2\r\n\r\nno", "answers 404: not a pruning-proxy"),
    ],
)
async def test_another_server_is_told_apart(answer, said):
    async with raw_server(answering(answer)) as server:
        with pytest.raises(ProxyError, match=said):
            await asyncio.to_thread(Inquiry(Settings(), server.url).sessions, 1)
        with pytest.raises(ProxyError, match=said):
            await asyncio.to_thread(Inquiry(Settings(), server.url).context, "one")


@pytest.fixture
def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
