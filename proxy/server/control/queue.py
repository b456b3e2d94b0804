"""Messages for a conversation that is under way: queued here, said at its next call, and from then on for ever."""

from collections.abc import Sequence
from secrets import token_hex
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from proxy.ledger.records import Queued
from proxy.server.board import MOST_CHARS, MOST_QUEUED, Full
from proxy.server.control.desk import Desk, Wrong, answer, body, calls_of


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be said."""

    text: Annotated[str, Meta(min_length=1, max_length=MOST_CHARS)]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The message waits."""

    queued: bool
    position: int
    """From 1."""
    id: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits."""

    id: str
    position: int
    text: str
    at: float
    """Unix time at which it was queued."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a conversation's next call."""

    session: str
    queue: tuple[Waiting, ...]


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages were taken out; 0 when they had been said already."""

    cancelled: int


def routes(desk: Desk) -> list[BaseRoute]:
    """The pages, given what they work with."""
    board = desk.board

    def told(session: str) -> None:
        desk.watch.feed.publish("queue", {"session": session, "queued": len(board.queued(session))})

    async def add(request: Request) -> Response:
        session = request.path_params["session"]
        ask = await body(request, Ask, f'{{"text": "…"}}, 1 to {MOST_CHARS} characters')
        if not ask.text.strip():
            raise Wrong(400, "invalid_request_error", "text: expected more than white space")
        await calls_of(desk, session, limit=1)
        message = Queued(id=token_hex(8), text=ask.text, at=desk.clock())
        try:
            position = await board.queue(session, message)
        except Full:
            raise Wrong(409, "queue_full", f"at most {MOST_QUEUED} messages wait for one session") from None
        told(session)
        return answer(Accepted(queued=True, position=position, id=message.id), 201)

    async def listed(request: Request) -> Response:
        session = request.path_params["session"]
        await calls_of(desk, session, limit=1)
        return answer(Queue(session=session, queue=_numbered(board.queued(session))))

    async def cancel(request: Request) -> Response:
        session, wanted = request.path_params["session"], request.path_params.get("message")
        ids = [wanted] if wanted else [message.id for message in board.queued(session)]
        cancelled = await board.drop(session, ids)
        told(session)
        return answer(Cancelled(cancelled=cancelled))

    here = "/_proxy/api/sessions/{session}/queue"
    return [
        Route(here, listed),
        Route(here, add, methods=["POST"]),
        Route(here, cancel, methods=["DELETE"]),
        Route(here + "/{message}", cancel, methods=["DELETE"]),
    ]


def _numbered(messages: Sequence[Queued]) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(id=message.id, position=number, text=message.text, at=message.at)
        for number, message in enumerate(messages, 1)
    )
