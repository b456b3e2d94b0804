"""Liveness and readiness, open to everybody."""

from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from proxy.server.control.desk import Desk, answer


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether calls should come here."""

    status: Literal["ready", "degraded", "leaving"]
    """degraded: calls are served, by memory instead of the store. leaving: send no more."""
    store: bool
    """The configured store answers."""
    upstreams: int
    """Upstreams that have an address."""


def routes(desk: Desk) -> list[BaseRoute]:
    """The pages, given what they work with."""
    upstreams = sum(bool(upstream.base_url) for upstream in desk.settings.upstreams.values())

    async def alive(_request: Request) -> Response:
        return answer({"status": "ok"})

    async def ready(_request: Request) -> Response:
        healthy, leaving = desk.watch.store_healthy, desk.watch.feed.ended
        status: Literal["ready", "degraded", "leaving"] = "ready" if healthy else "degraded"
        found = Readiness(status="leaving" if leaving else status, store=healthy, upstreams=upstreams)
        # A lost store is no reason to lose the calls as well.
        return answer(found, 503 if leaving or not upstreams else 200)

    return [Route("/healthz", alive), Route("/readyz", ready)]
