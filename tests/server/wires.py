"""A connection without a socket: a transport that notes what is done with it."""

import uvicorn

from proxy.server.protocol import Protocol


class Transport:
    """Notes what is written."""

    def __init__(self):
        self.written = []
        self.closing = False
        self.reading = True
        self.ended = False

    @property
    def sent(self):
        """All that was written, in one piece."""
        return b"".join(self.written)

    def write(self, data):
        self.written.append(data)

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def get_extra_info(self, name, default=None):
        return default

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True


def connected(app, **config):
    """A connection of our protocol whose calls go to this ASGI app, and its transport."""
    settings = uvicorn.Config(app, log_config=None, ws="none", **config)
    protocol = Protocol(settings, uvicorn.server.ServerState(), {})
    transport = Transport()
    protocol.connection_made(transport)
    return protocol, transport


async def start(send, *headers, status=200):
    await send({"type": "http.response.start", "status": status, "headers": headers or [(b"content-length", b"4")]})


async def chunk(send, body, *, more=True):
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def answering(scope, receive, send):
    """An app that reads the body and sends it back, behind the path."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    answer = scope["raw_path"] + b" " + body
    await start(send, (b"content-length", b"%d" % len(answer)))
    await chunk(send, answer, more=False)


def answered(*bodies):
    """The bytes of such answers."""
    return b"".join(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
