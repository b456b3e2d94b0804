"""A fast scripted upstream: `python -m tests.bench.cost.upstream`. Prints its port, then serves until it is killed.

It reads a request's length and nothing else of its body, and answers in the format of the path. The header
`x-bench-stream: CHUNKS GAP_MS` asks for a stream; every piece of its text carries the time at which it was written (`@`
and nanoseconds of the monotonic clock, which all processes of a machine share), so that the client can tell how late it
is. `x-bench-call` asks for a tool call (chat only). Reported input is a quarter of the body's bytes.
"""

import asyncio
import time

import uvloop

CHAT = (
    b'{"id":"c1","object":"chat.completion","created":1,"model":"bench","choices":[{"index":0,"message":{"role":'
    b'"assistant","content":"done"%b},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":9,'
    b'"total_tokens":%d}}'
)
CALL = b',"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{}"}}]'
MESSAGES = (
    b'{"id":"m1","type":"message","role":"assistant","model":"bench","content":[{"type":"text","text":"done"%b}],'
    b'"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":9,"cache_read_input_tokens":%d}}'
)
RESPONSES = (
    b'{"id":"r1","object":"response","status":"completed","model":"bench","output":[{"type":"message","role":'
    b'"assistant","content":[{"type":"output_text","text":"done"%b}]}],"usage":{"input_tokens":%d,"output_tokens":9,'
    b'"total_tokens":%d}}'
)
GEMINI = (
    b'{"candidates":[{"content":{"role":"model","parts":[{"text":"done"%b}]},"finishReason":"STOP","index":0}],'
    b'"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":9,"totalTokenCount":%d}}'
)

_CHUNK = b'{"id":"c1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[%b]}'
CHAT_STREAM = (
    b"data: " + _CHUNK % b'{"index":0,"delta":{"content":"@%020d"},"finish_reason":null}' + b"\n\n",
    b"data: "
    + _CHUNK % b'{"index":0,"delta":{},"finish_reason":"stop"}'
    + b'\n\ndata: {"id":"c1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":%d,'
    b'"completion_tokens":9,"total_tokens":9}}\n\ndata: [DONE]\n\n',
)
MESSAGES_STREAM = (
    (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        b'"text":"@%020d"}}\n\n'
    ),
    (
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":%d,'
        b'"output_tokens":9}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
)
RESPONSES_STREAM = (
    (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"i","output_index":0,'
        b'"delta":"@%020d"}\n\n'
    ),
    (
        b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r1","status":"completed",'
        b'"output":[],"usage":{"input_tokens":%d,"output_tokens":9,"total_tokens":9}}}\n\n'
    ),
)
GEMINI_STREAM = (
    b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"@%020d"}]},"index":0}]}\r\n\r\n',
    (
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],'
        b'"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":9,"totalTokenCount":9}}\r\n\r\n'
    ),
)
ANSWERS = (
    (b"/chat/completions", CHAT, CHAT_STREAM),
    (b"/v1/messages", MESSAGES, MESSAGES_STREAM),
    (b"/v1/responses", RESPONSES, RESPONSES_STREAM),
    (b"/v1beta/", GEMINI, GEMINI_STREAM),
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: bench\r\ncontent-length: %d\r\n\r\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: bench\r\ntransfer-encoding: chunked\r\n\r\n"
)


class Upstream(asyncio.Protocol):
    """One connection; requests one after the other."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._missing = 0
        self._length = 0

    def connection_made(self, transport) -> None:
        self._transport = transport

    def connection_lost(self, exc) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._head[: end + 2].lower()
            self._length = int(_field(head, b"content-length") or 0)
            self._missing = self._length - (len(self._head) - end - 4)
            self._head = head
        if self._missing <= 0:
            head, self._head, self._missing = self._head, b"", 0
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        path = head.split(b" ", 2)[1]
        whole, streamed = next(((one, two) for mark, one, two in ANSWERS if mark in path), ANSWERS[0][1:])
        tokens = self._length // 4
        wish = _field(head, b"x-bench-stream")
        if wish is None:
            call = CALL if _field(head, b"x-bench-call") else b""
            body = whole % (call, tokens, tokens)
            self._transport.write(HEAD % len(body) + body)
            return
        chunks, gap_ms = wish.split()
        self._transport.write(STREAM_HEAD)
        self._tell(streamed, int(chunks), float(gap_ms) / 1000, self._loop.time(), tokens)

    def _tell(self, streamed, left: int, gap_s: float, due: float, tokens: int) -> None:
        if self._transport is None:
            return
        if left:
            piece = streamed[0] % time.monotonic_ns()
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self._loop.call_at(due + gap_s, self._tell, streamed, left - 1, gap_s, due + gap_s, tokens)
        else:
            piece = streamed[1] % tokens
            self._transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(piece), piece))


def _field(head: bytes, name: bytes) -> bytes | None:
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    start = at + len(name) + 3
    return head[start : head.index(b"\r\n", start)].strip()


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
