"""Errors of ours as the client's own SDK can read them."""

from collections.abc import Callable, Sequence

from proxy.dialects import dialect_for
from proxy.dialects.anthropic_messages import AnthropicMessages
from proxy.dialects.base import Dialect
from proxy.dialects.gemini import Gemini
from proxy.dialects.openai_chat import OpenAIChat
from proxy.server.heartbeat import Send
from proxy.wire.path import Route

ErrorBody = Callable[[Route, int, str, str], bytes]

_OF_FAMILY: dict[str, Dialect] = {"openai": OpenAIChat(), "anthropic": AnthropicMessages(), "gemini": Gemini()}


def error_body(route: Route, status: int, kind: str, message: str) -> bytes:
    """The JSON of an error in the format of who calls this path; where nobody models it, in that of its API family.

    `kind` is a `ProxyError.kind`, `message` one line without secrets.
    """
    dialect = dialect_for(route.rest_path) or _OF_FAMILY[route.family]
    return dialect.error_body(status, kind, message)


async def send_json(send: Send, status: int, body: bytes, extra: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A whole JSON answer of ours."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
