"""The plain ASGI side: types, reading a request, starting an answer."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from proxy.demo.provider.asked import Answer, Bill

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]


@dataclass(slots=True, kw_only=True)
class Received:
    """One request as it arrived, and what became of it."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Lower-case names; of repeated headers the last."""
    body: bytes
    status: int = 0
    """0 until the answer begins."""
    bill: Bill | None = None
    """None for refusals and count requests."""
    answer: Answer | None = None
    abandoned: bool = False
    """The other side left before the answer had ended."""


async def receive_request(scope: Scope, receive: Receive) -> Received:
    """The whole request."""
    pieces = []
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    return Received(
        method=scope["method"],
        path=scope["path"],
        query=scope["query_string"].decode(),
        headers={name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
        body=b"".join(pieces),
    )


async def start_answer(
    record: Received, send: Send, status: int, headers: tuple[Header, ...], content_type: str
) -> None:
    """Send status and headers, and note the status."""
    record.status = status
    lines = [(b"content-type", content_type.encode()), (b"x-request-id", b"req_loopback"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})


async def serve_lifespan(receive: Receive, send: Send) -> None:
    """Start up and shut down at once: there is nothing to prepare."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
