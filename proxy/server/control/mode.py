"""The switch: off, observe or prune, for all conversations or for one, while the proxy runs."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from proxy.server.control.desk import Desk, answer, body, calls_of
from proxy.settings.values import Mode


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is ordered."""

    mode: Mode | None
    """None: back to what is configured (of a session: to what all have)."""
    session: str = ""
    """Empty: all conversations that have no mode of their own."""


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force."""

    mode: Mode
    configured: Mode
    """What the configuration says; `mode` differs from it while something else is ordered."""
    sessions: dict[str, Mode]
    """Conversations with a mode of their own."""


def routes(desk: Desk) -> list[BaseRoute]:
    """The pages, given what they work with."""
    board = desk.board

    def modes() -> Modes:
        return Modes(mode=board.mode, configured=board.configured, sessions=board.orders.modes)

    async def shown(_request: Request) -> Response:
        return answer(modes())

    async def ordered(request: Request) -> Response:
        switch = await body(request, Switch, '{"mode": "off" | "observe" | "prune" | null, "session": "…" (optional)}')
        if switch.session:
            await calls_of(desk, switch.session, limit=1)
        await board.set_mode(switch.mode, switch.session)
        desk.watch.feed.publish("mode", {"session": switch.session or None, "mode": switch.mode})
        return answer(modes())

    return [Route("/_proxy/api/mode", shown), Route("/_proxy/api/mode", ordered, methods=["PUT"])]
