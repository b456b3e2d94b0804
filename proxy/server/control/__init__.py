"""The proxy's own pages, never forwarded: the JSON API, the event stream, metrics and health.

desk.py      what the pages work with, and how they answer
guard.py     who may see them
openapi.py   the table of pages, and their description
sessions.py  queue.py  mode.py  reports.py  events.py  health.py    one module a group of pages
pages.py     the dashboard's files
"""

from collections.abc import Iterable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from proxy.errors import StoreError
from proxy.server.control import events, health, mode, openapi, queue, reports, sessions
from proxy.server.control.desk import Desk, Wrong, said_wrong
from proxy.server.control.guard import Guard


def control_plane(desk: Desk, pages: Iterable[BaseRoute] = ()) -> Guard:
    """The guarded ASGI app; `pages` are further ones, such as the dashboard."""
    return Guard(
        Starlette(
            routes=[*routes(desk), *pages],
            exception_handlers=dict.fromkeys((Wrong, StoreError, HTTPException, Exception), said_wrong),
        ),
        token=desk.settings.server.admin_token,
        host=desk.settings.server.host,
    )


def routes(desk: Desk) -> list[BaseRoute]:
    """All pages of the API."""
    groups = (sessions, queue, mode, reports, events, health)
    return [*(route for group in groups for route in group.routes(desk)), *openapi.routes()]
