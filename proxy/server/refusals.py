"""Errors of ours as the client's own SDK can read them."""

from collections.abc import Callable, Sequence
from typing import Any

from proxy.server.heartbeat import Send
from proxy.wire.body import dumps
from proxy.wire.path import Route

ErrorBody = Callable[[Route | None, int, str, str], bytes]

_GOOGLE_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    426: "FAILED_PRECONDITION",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_body(route: Route | None, status: int, kind: str, message: str) -> bytes:
    """The JSON of an error in the format of the route's API family; OpenAI's where no route was found.

    `kind` is a `ProxyError.kind`, `message` one line without secrets.
    """
    family = route.family if route is not None else "openai"
    error: dict[str, Any]
    if family == "anthropic":
        return dumps({"type": "error", "error": {"type": kind, "message": message}})
    if family == "gemini":
        error = {"code": status, "message": message, "status": _GOOGLE_STATUS.get(status, "UNKNOWN")}
    else:
        error = {"message": message, "type": kind, "param": None, "code": kind}
    return dumps({"error": error})


async def send_json(send: Send, status: int, body: bytes, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A whole JSON answer of ours."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
