"""What the pages of the control plane have to work with, and how they answer."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from proxy.errors import StoreError
from proxy.ledger.records import Turn
from proxy.ledger.store import Ledger, TurnQuery
from proxy.server.board import Board
from proxy.server.watch import Watch
from proxy.settings.values import Settings

T = TypeVar("T")

MOST_ROWS = 20_000
"""Calls that a report looks at."""
MOST_SESSIONS = 5000
"""Conversations that a list goes back."""
MOST_TEXT = 200
_MOST_BODY = 1024 * 1024
_WRONG_METHOD = 405

log = structlog.get_logger("proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The running process, as far as it is shown and steered."""

    settings: Settings
    ledger: Ledger
    board: Board
    watch: Watch
    clock: Callable[[], float]
    """Unix time."""


class Wrong(Exception):
    """What was asked for cannot be given; the text is for people and quotes nothing."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind


class Complaint(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong."""

    type: str
    message: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Every error of these pages."""

    error: Complaint


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A struct, or plain values, as JSON."""
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


async def said_wrong(request: Request, error: Exception) -> Response:
    """An error of these pages, in one shape."""
    headers: Mapping[str, str] | None = None
    match error:
        case Wrong():
            status, kind, text = error.status, error.kind, str(error)
        case StoreError():
            status, kind, text = 503, "store_error", "the store does not answer"
        case HTTPException():
            status, kind, text = error.status_code, "not_found_error", "no such page, or not with this method"
            headers = {"allow": _methods(request)} if status == _WRONG_METHOD else None
        case _:
            log.error("control_failed", error=type(error).__name__)
            status, kind, text = 500, "proxy_error", "internal error of the proxy"
    return answer(Refused(error=Complaint(type=kind, message=text)), status, headers)


def _methods(request: Request) -> str:
    """Those of all routes to this path: each of them knows only its own."""
    routes = (route for route in request.app.routes if isinstance(route, Route))
    reached = (route.methods or () for route in routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted(set(chain.from_iterable(reached))))


def number(request: Request, name: str, default: float, *, least: float = 0, most: float = math.inf) -> float:
    """A number of the query, from `least` to `most`."""
    given = request.query_params.get(name)
    try:
        value = default if given is None else float(given)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise Wrong(400, "invalid_request_error", f"{name}: expected a number {bounds}")
    return value


def text(request: Request, name: str, *, most: int = MOST_TEXT) -> str:
    """A text of the query, of `most` characters at most; empty where none is given."""
    given = request.query_params.get(name, "")
    if len(given) > most:
        raise Wrong(400, "invalid_request_error", f"{name}: expected at most {most} characters")
    return given


async def body(request: Request, kind: type[T], expected: str) -> T:
    """The request's JSON body as a struct; `expected` says in the error what it should be."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Wrong(415, "invalid_request_error", "expected content-type: application/json")
    raw = b""
    try:
        async for piece in request.stream():
            raw += piece
            if len(raw) > _MOST_BODY:
                raise Wrong(413, "request_too_large", f"the body is larger than {_MOST_BODY} bytes")
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, ClientDisconnect):
        raise Wrong(400, "invalid_request_error", f"expected {expected}") from None


async def calls_since(desk: Desk, request: Request) -> tuple[list[Turn], float, bool]:
    """The rows that a report is about (`?hours=`, all by default), since when, and whether these are all."""
    hours = number(request, "hours", 0)
    since = max(0.0, desk.clock() - hours * 3600) if hours else 0.0
    turns = await desk.ledger.turns(TurnQuery(since=since, limit=MOST_ROWS))
    return turns, since, len(turns) < MOST_ROWS


async def calls_of(desk: Desk, session: str, *, limit: int = 200) -> list[Turn]:
    """A conversation's rows, newest first; Wrong when there are none."""
    turns = await desk.ledger.turns(TurnQuery(session=session, limit=limit)) if session else []
    if not turns:
        raise Wrong(404, "not_found_error", "no such session, or it has expired")
    return turns
