"""An HTTP proxy that stands between us and an upstream, as companies have them: where it is, and a tunnel through it."""

import asyncio
import socket
from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_to_bytes, urlsplit

from proxy.errors import UpstreamUnreachable
from proxy.wire.headers import Headers

_MOST_HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Detour:
    """Such a proxy."""

    host: str
    port: int
    headers: Headers
    """What it wants to hear, and nobody behind it."""


@lru_cache(maxsize=64)
def detour(url: str) -> Detour:
    """The proxy at `http://[USER:PASSWORD@]HOST[:PORT]`."""
    parts = urlsplit(url)
    headers: Headers = []
    if parts.username is not None:
        credentials = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
        headers = [(b"proxy-authorization", b"Basic " + b64encode(credentials))]
    return Detour(parts.hostname or "", parts.port or 80, headers)


async def tunnel(loop: asyncio.AbstractEventLoop, peer: socket.socket, through: Detour, host: str, port: int) -> None:
    """Have the proxy at the other end of `peer` connect to the upstream (RFC 9110 section 9.3.6).

    From then on the socket is one to the upstream. Raises UpstreamUnreachable, OSError.
    """
    place = b"%b:%d" % (f"[{host}]".encode() if ":" in host else host.encode("idna"), port)
    lines = [b"CONNECT %b HTTP/1.1" % place, b"host: " + place, *(b"%b: %b" % header for header in through.headers)]
    await loop.sock_sendall(peer, b"\r\n".join((*lines, b"\r\n")))
    head = b""
    # Nobody behind it speaks before he is spoken to, so that nothing of his is read here.
    while b"\r\n\r\n" not in head:
        piece = await loop.sock_recv(peer, 4096)
        head += piece
        if not piece or len(head) > _MOST_HEAD_BYTES:
            raise UpstreamUnreachable("the HTTP proxy on the way to the upstream gave no answer")
    status = head.split(b" ", 2)[1:2]
    if not status or not (status[0].isdigit() and status[0].startswith(b"2")):
        said = status[0].decode("latin-1")[:3] if status and status[0].isdigit() else "none"
        raise UpstreamUnreachable(f"the HTTP proxy on the way to the upstream answered with status {said}")
