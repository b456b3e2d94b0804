"""Reports for the command line: from the store that the settings name, or from a running proxy's API."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from proxy.errors import ProxyError, SettingsError
from proxy.ledger.store import Ledger, TurnQuery
from proxy.reports.accuracy import Accuracy, accuracy
from proxy.reports.edits import Edits, edits
from proxy.reports.overview import Overview, overview
from proxy.reports.savings import Savings, savings
from proxy.reports.sessions import SessionPage, page
from proxy.server.learning import treatments
from proxy.server.originals import kept_originals
from proxy.settings.detours import is_here
from proxy.settings.values import Settings
from proxy.stores import open_store, store_file

T = TypeVar("T")

MOST_ROWS = 100_000
"""Calls that a report looks at: nobody waits for them but who asked."""
_TIMEOUT_S = 10.0
_NOT_FOUND = 404
_MOST_NAMED = 8
_MOST_FIND = 200
"""Characters that the list's search takes."""


class Inquiry:
    """Where the answers come from: `url`, a running proxy, or else the store of the settings."""

    def __init__(self, settings: Settings, url: str) -> None:
        """Raises SettingsError for a store that only the running proxy can see."""
        self._settings = settings
        self._url = url.rstrip("/")
        if not url and settings.store.url.startswith("memory:"):
            raise SettingsError("store.url: memory:// lives in the running proxy only; ask it with --url")
        file = None if url else store_file(settings.store.url)
        self._missing = file if file is not None and not file.exists() else None

    @property
    def note(self) -> str:
        """What whoever asks should know about the place where the answers come from; mostly empty."""
        return f"there is no store at {self._missing} yet" if self._missing else ""

    def context(self, session: str) -> Overview:
        """The context display of a session, by its id or the only beginning of one; empty: of the one with the newest call."""
        return self._of(session, self._context)

    def edits(self, session: str) -> Edits:
        """The edits of a session's newest call, with what they replaced; which session as for `context`."""
        return self._of(session, self._edits)

    def sessions(self, limit: int) -> SessionPage:
        """The newest sessions."""
        if self._url:
            return self._asked(f"sessions?limit={limit}", SessionPage)
        found = self._read(lambda ledger: ledger.sessions(limit + 1))
        return page(found, offset=0, limit=limit, queued={}, modes={})

    def accuracy(self, hours: float) -> Accuracy:
        """Errors of the last hours; 0: of all that is kept."""
        if self._url:
            return self._asked(f"accuracy?hours={hours:g}", Accuracy)
        since = _since(hours)

        async def read(ledger: Ledger) -> Accuracy:
            turns = await ledger.turns(TurnQuery(since=since, limit=MOST_ROWS))
            known = await treatments(ledger, self._settings, turns)
            return accuracy(turns, treatments=known, since=since, complete=len(turns) < MOST_ROWS)

        return self._read(read)

    def savings(self, hours: float) -> Savings:
        """Savings of the last hours; 0: of all that is kept."""
        if self._url:
            return self._asked(f"savings?hours={hours:g}", Savings)
        since = _since(hours)
        turns = self._read(lambda ledger: ledger.turns(TurnQuery(since=since, limit=MOST_ROWS)))
        return savings(turns, since=since, complete=len(turns) < MOST_ROWS)

    def _of(self, session: str, ask: Callable[[str], T | None]) -> T:
        chosen = session or self._newest()
        found = ask(chosen)
        # A whole id first: it may be the beginning of others.
        if found is None and session and (begun := self._begun_with(session)):
            if len(begun) > 1:
                raise _ambiguous(session, begun)
            found = ask(begun[0])
        if found is None:
            raise _unknown(chosen)
        return found

    def _context(self, session: str) -> Overview | None:
        if self._url:
            return self._found(f"sessions/{quote(session, safe='')}/context", Overview)
        return overview(self._read(lambda ledger: ledger.turns(TurnQuery(session=session, limit=200))))

    def _edits(self, session: str) -> Edits | None:
        if self._url:
            return self._found(f"sessions/{quote(session, safe='')}/edits?originals=1", Edits)

        async def read(ledger: Ledger) -> Edits | None:
            turns = await ledger.turns(TurnQuery(session=session, limit=200))
            newest = next((turn for turn in turns if turn.purpose == "main"), None)
            if newest is None:
                return None
            plan = await ledger.plan(newest.plan_id)
            return edits(newest, plan, await kept_originals(ledger, session, plan.edits if plan is not None else ()))

        return self._read(read)

    def _begun_with(self, text: str) -> list[str]:
        """The ids, newest first, that are longer than this text and begin with it."""
        if not self._url:
            listed = [one.session for one in self._read(lambda ledger: ledger.sessions(MOST_ROWS))]
        else:
            listed, wanted = [], quote(text[:_MOST_FIND], safe="")
            offset: int | None = 0
            while offset is not None:
                part = self._asked(f"sessions?limit=500&offset={offset}&find={wanted}", SessionPage)
                listed += [row.session for row in part.sessions]
                offset = part.next
        return [session for session in listed if session.startswith(text) and session != text]

    def _newest(self) -> str:
        listed = self.sessions(1).sessions
        if not listed:
            raise ProxyError(": ".join(filter(None, ("no calls are recorded yet", self.note))))
        return listed[0].session

    def _read(self, ask: Callable[[Ledger], Awaitable[T]]) -> T:
        async def read() -> T:
            store = self._settings.store
            # Who only asks makes no file, least of all where a path is mistyped.
            url = "memory://" if self._missing else store.url
            ledger = open_store(url, ttl_s=store.ttl_hours * 3600, clock=time.time, key=store.key)
            try:
                return await ask(ledger)
            finally:
                await ledger.close()

        return asyncio.run(read())

    def _found(self, path: str, kind: type[T]) -> T | None:
        answer = self._answer(path)
        return None if answer.status_code == _NOT_FOUND else self._decoded(answer, kind)

    def _asked(self, path: str, kind: type[T]) -> T:
        return self._decoded(self._answer(path), kind)

    def _answer(self, path: str) -> httpx.Response:
        if not self._url.startswith(("http://", "https://")):
            raise ProxyError(f"--url: expected http://HOST:PORT, got {self._url!r}")
        token = self._settings.server.admin_token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            url = f"{self._url}/_proxy/api/{path}"
            return httpx.get(url, headers=headers, timeout=_TIMEOUT_S, trust_env=not is_here(url))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProxyError(f"--url: no answer from {self._url!r} ({type(error).__name__})") from error

    def _decoded(self, answer: httpx.Response, kind: type[T]) -> T:
        if answer.is_error:
            raise ProxyError(f"--url: {self._url!r} answers {answer.status_code}: {_message(answer)}")
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.MsgspecError as error:
            raise ProxyError(f"--url: {self._url!r} is not a proxy of this version") from error


def _since(hours: float) -> float:
    return time.time() - hours * 3600 if hours else 0.0


def _unknown(session: str) -> ProxyError:
    return ProxyError(f"no calls of session {session!r} are recorded; `pruning-proxy sessions` lists them")


def _ambiguous(session: str, begun: list[str]) -> ProxyError:
    more = f" and {len(begun) - _MOST_NAMED} more" if len(begun) > _MOST_NAMED else ""
    return ProxyError(f"{len(begun)} sessions begin with {session!r}: {', '.join(begun[:_MOST_NAMED])}{more}")


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "not a pruning-proxy"
