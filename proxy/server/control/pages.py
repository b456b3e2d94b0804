"""The dashboard: a fixed set of files, read once and served from memory.

The files hold nothing about anybody; what they show they ask the API for. The policy sent with them allows scripts,
styles and connections of this origin only and no markup from strings, so that a conversation's text shown in the page
can never act in it.
"""

from dataclasses import dataclass
from hashlib import blake2b
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from proxy.server.control.desk import Wrong

HOME: Final = "/_proxy/"
STATIC: Final = "/_proxy/static/"
POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Page:
    """One file."""

    content: bytes
    kind: str
    etag: str


def files() -> dict[str, Page]:
    """All files by their path below `static/`; the page itself is `index.html`."""
    return dict(_found(resources.files("proxy.reports").joinpath("pages"), ""))


def _found(folder: Traversable, path: str) -> list[tuple[str, Page]]:
    pages: list[tuple[str, Page]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            pages += _found(entry, f"{path}{entry.name}/")
        elif kind := _KINDS.get("." + entry.name.rpartition(".")[2]):
            content = entry.read_bytes()
            etag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
            pages.append((path + entry.name, Page(content, kind, etag)))
    return pages


def routes() -> list[BaseRoute]:
    """The page and its files."""
    pages = files()

    async def home(request: Request) -> Response:
        return _sent(request, pages["index.html"])

    async def slashless(_request: Request) -> Response:
        return RedirectResponse(HOME, 308)

    async def nowhere(_request: Request) -> Response:
        # Not for good, or browsers would keep it for whatever listens on that port next.
        return RedirectResponse(HOME, 307)

    async def static(request: Request) -> Response:
        page = pages.get(request.path_params["path"])
        if page is None:
            raise Wrong(404, "not_found_error", "the dashboard has no such file")
        return _sent(request, page)

    return [
        Route(HOME, home),
        Route(HOME.rstrip("/"), slashless),
        Route("/", nowhere),
        Route(STATIC + "{path:path}", static),
    ]


def _sent(request: Request, page: Page) -> Response:
    # Kept, but asked for anew each time: after an upgrade no old file may work with a new one.
    headers = {"etag": page.etag, "cache-control": "no-cache", "content-security-policy": POLICY}
    if page.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(page.content, headers={**headers, "content-type": page.kind})
