"""The description of this API, made from the very types that it answers with."""

from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from proxy import __version__
from proxy.reports.accuracy import Accuracy
from proxy.reports.dashboard import Dashboard
from proxy.reports.edits import EditRow, Edits
from proxy.reports.overview import Overview
from proxy.reports.savings import Savings
from proxy.reports.sessions import SessionDetail, SessionPage
from proxy.server.control.desk import MOST_SESSIONS, MOST_TEXT, Refused, answer
from proxy.server.control.health import Readiness
from proxy.server.control.mode import Modes, Switch
from proxy.server.control.queue import Accepted, Ask, Cancelled, Queue


class Page(NamedTuple):
    """One operation."""

    method: str
    path: str
    summary: str
    gives: Any = None
    """Type of the JSON answer; None for text."""
    takes: Any = None
    query: tuple[str, ...] = ()
    status: int = 200


_SESSION = "/_proxy/api/sessions/{session}"
_EVENTS = """\
Server-sent events. `call`: the fields of the log's context_estimate event with at, window and paid. `decision`: session, \
turn, decision (one line for people). `store`: healthy, reason. `mode`: session (null: all), mode (null: as configured). \
`queue`: session, queued (messages that wait now). `lost`: events (dropped, because this reader is too slow)."""

PAGES: Final = (
    Page(
        "GET",
        "/_proxy/api/sessions",
        "Conversations, newest call first.",
        SessionPage,
        query=("limit", "offset", "find"),
    ),
    Page("GET", _SESSION, "One conversation and its calls, newest first.", SessionDetail, query=("limit", "before")),
    Page("GET", _SESSION + "/context", "The context display, as of the newest call.", Overview),
    Page("GET", _SESSION + "/edits", "What was taken out, and what stands there now.", Edits, query=("originals",)),
    Page("GET", _SESSION + "/edits/{number}", "One edit, with what stood there.", EditRow),
    Page("GET", _SESSION + "/queue", "Messages that wait for the next call.", Queue),
    Page("POST", _SESSION + "/queue", "Queue a user message for the next call.", Accepted, Ask, status=201),
    Page("DELETE", _SESSION + "/queue", "Cancel all messages that wait.", Cancelled),
    Page("DELETE", _SESSION + "/queue/{message}", "Cancel one message.", Cancelled),
    Page("GET", "/_proxy/api/accuracy", "How far estimates were off.", Accuracy, query=("hours",)),
    Page("GET", "/_proxy/api/savings", "Tokens and money saved, net.", Savings, query=("hours",)),
    Page("GET", "/_proxy/api/dashboard", "Savings over time; how store and upstreams do.", Dashboard, query=("hours",)),
    Page("GET", "/_proxy/api/mode", "The mode in force.", Modes),
    Page("PUT", "/_proxy/api/mode", "Change the mode, for all or for one conversation.", Modes, Switch),
    Page("GET", "/_proxy/api/events", _EVENTS),
    Page("GET", "/_proxy/openapi.json", "This description.", dict[str, Any]),
    Page("GET", "/metrics", "Prometheus metrics; of several workers, the sums over all of them."),
    Page("GET", "/healthz", "The process lives.", dict[str, str]),
    Page("GET", "/readyz", "Whether calls should come here.", Readiness),
)
"""Every page of the API; a test holds this table and the routes together."""

_NUMBER: Final = {"type": "number", "minimum": 0}
_QUERY: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "limit": ("Rows on a page, 1–500; 50 by default.", _NUMBER | {"minimum": 1, "maximum": 500}),
    "offset": ("Rows to pass over.", _NUMBER | {"maximum": MOST_SESSIONS}),
    "find": (
        "Only those with this text in their id, name, model or upstream.",
        {"type": "string", "maxLength": MOST_TEXT},
    ),
    "before": ("Unix time: only calls that began earlier.", _NUMBER),
    "originals": ("1: each edit also with what stood there, where that is kept.", _NUMBER | {"maximum": 1}),
    "hours": ("Only calls of so many last hours; all by default.", _NUMBER),
}
"""What each says, and its schema."""


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    types = [Refused, *(kind for page in PAGES for kind in (page.gives, page.takes) if kind is not None)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for page in PAGES:
        paths.setdefault(page.path, {})[page.method.lower()] = _operation(page, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "pruning-proxy control plane", "version": __version__},
        "security": [{}, {"admin_token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(components),
            "securitySchemes": {"admin_token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(page: Page, schema_of: dict[str, dict[str, Any]]) -> dict[str, Any]:
    content = (
        {"text/event-stream" if page.path.endswith("/events") else "text/plain": {"schema": {"type": "string"}}}
        if page.gives is None
        else {"application/json": {"schema": schema_of[repr(page.gives)]}}
    )
    refused = {"application/json": {"schema": schema_of[repr(Refused)]}}
    operation: dict[str, Any] = {
        "summary": page.summary,
        "responses": {
            str(page.status): {"description": "OK", "content": content},
            "default": {"description": "An error.", "content": refused},
        },
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("session", "message", "number")
        if f"{{{name}}}" in page.path
    ]
    for name in page.query:
        description, schema = _QUERY[name]
        parameters.append({"name": name, "in": "query", "description": description, "schema": schema})
    if parameters:
        operation["parameters"] = parameters
    if page.takes is not None:
        body = {"schema": schema_of[repr(page.takes)]}
        operation["requestBody"] = {"required": True, "content": {"application/json": body}}
    return operation


def routes() -> list[BaseRoute]:
    """The page."""

    async def shown(_request: Request) -> Response:
        return answer(document())

    return [Route("/_proxy/openapi.json", shown)]
