"""Conversations: the list, one of them, its context display and its edits."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from proxy.conversation.edit import Plan
from proxy.ledger.records import Turn
from proxy.ledger.store import SessionSummary
from proxy.reports.edits import edit_row, edits
from proxy.reports.overview import overview
from proxy.reports.sessions import detail, named, page
from proxy.server.control.desk import MOST_ROWS, MOST_SESSIONS, Desk, Wrong, answer, calls_of, number, text
from proxy.server.originals import kept_originals


def routes(desk: Desk) -> list[BaseRoute]:
    """The pages, given what they work with."""

    async def listed(request: Request) -> Response:
        limit = int(number(request, "limit", 50, least=1, most=500))
        offset = int(number(request, "offset", 0, most=MOST_SESSIONS))
        # One more tells whether there are more.
        found = await _found(desk, text(request, "find").strip(), offset + limit + 1)
        orders = desk.board.orders
        queued = {session: len(waiting) for session, waiting in orders.queues.items()}
        return answer(page(found, offset=offset, limit=limit, queued=queued, modes=orders.modes))

    async def shown(request: Request) -> Response:
        session = request.path_params["session"]
        limit = int(number(request, "limit", 50, least=1, most=500))
        before = number(request, "before", 0) or None
        turns = await calls_of(desk, session, limit=MOST_ROWS)
        queued, mode = len(desk.board.queued(session)), desk.board.orders.modes.get(session, "")
        return await asyncio.to_thread(
            lambda: answer(detail(session, turns, limit=limit, before=before, queued=queued, mode=mode))
        )

    async def context(request: Request) -> Response:
        found = overview(await calls_of(desk, request.path_params["session"]))
        if found is None:
            raise Wrong(404, "not_found_error", "this session has no call of a client's")
        return answer(found)

    async def edited(request: Request) -> Response:
        newest, plan = await _newest_plan(desk, request)
        found = plan.edits if plan is not None and number(request, "originals", 0, most=1) else None
        originals = None if found is None else await kept_originals(desk.ledger, newest.session, found)
        return answer(edits(newest, plan, originals))

    async def one_edit(request: Request) -> Response:
        newest, plan = await _newest_plan(desk, request)
        at, known = request.path_params["number"], plan.edits if plan is not None else ()
        if not 1 <= at <= len(known):
            raise Wrong(404, "not_found_error", "this session has no such edit, or no longer")
        edit = known[at - 1]
        return answer(edit_row(at, edit, await kept_originals(desk.ledger, newest.session, (edit,)), newest.factor))

    here = "/_proxy/api/sessions"
    return [
        Route(here, listed),
        Route(here + "/{session}", shown),
        Route(here + "/{session}/context", context),
        Route(here + "/{session}/edits", edited),
        Route(here + "/{session}/edits/{number:int}", one_edit),
    ]


async def _found(desk: Desk, wanted: str, most: int) -> list[SessionSummary]:
    """The newest conversations, as many as are `wanted` by a text, or `most` of all."""
    return named(await desk.ledger.sessions(MOST_SESSIONS), wanted) if wanted else await desk.ledger.sessions(most)


async def _newest_plan(desk: Desk, request: Request) -> tuple[Turn, Plan | None]:
    """The plan of the conversation's newest call of a client's; None when the store has lost it."""
    turns = await calls_of(desk, request.path_params["session"])
    newest = next((turn for turn in turns if turn.purpose == "main"), turns[0])
    return newest, await desk.ledger.plan(newest.plan_id)
