"""Accuracy, savings, the dashboard's own report and the Prometheus page. What takes time is done on a thread: calls go on meanwhile."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from proxy import __version__
from proxy.reports.accuracy import accuracy
from proxy.reports.dashboard import Machine, dashboard
from proxy.reports.metrics import CONTENT_TYPE
from proxy.reports.savings import savings
from proxy.server.control.desk import Desk, answer, calls_since
from proxy.server.learning import treatments


def routes(desk: Desk) -> list[BaseRoute]:
    """The pages, given what they work with."""

    async def exact(request: Request) -> Response:
        turns, since, complete = await calls_since(desk, request)
        known = await treatments(desk.ledger, desk.settings, turns)
        return await asyncio.to_thread(
            lambda: answer(accuracy(turns, treatments=known, since=since, complete=complete))
        )

    async def saved(request: Request) -> Response:
        turns, since, complete = await calls_since(desk, request)
        return await asyncio.to_thread(lambda: answer(savings(turns, since=since, complete=complete)))

    async def board(request: Request) -> Response:
        turns, since, complete = await calls_since(desk, request)
        machine = _machine(desk)
        return await asyncio.to_thread(lambda: answer(dashboard(turns, machine, since=since, complete=complete)))

    async def metrics(_request: Request) -> Response:
        # A hundred models make a page of half a megabyte.
        return Response(await asyncio.to_thread(desk.watch.numbers.page), headers={"content-type": CONTENT_TYPE})

    return [
        Route("/_proxy/api/accuracy", exact),
        Route("/_proxy/api/savings", saved),
        Route("/_proxy/api/dashboard", board),
        Route("/metrics", metrics),
    ]


def _machine(desk: Desk) -> Machine:
    return Machine(
        addresses=sum(bool(upstream.base_url) for upstream in desk.settings.upstreams.values()),
        # The scheme only: an address may carry a password.
        store=desk.settings.store.url.partition(":")[0].partition("+")[0],
        store_healthy=desk.watch.store_healthy,
        store_failures=desk.watch.store_failures,
        open_calls=desk.watch.open_calls,
        version=__version__,
    )
