"""The provider as an ASGI app, with hooks for tests."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qsl

from proxy.demo.provider.answers import Answers, echo
from proxy.demo.provider.apis import Row, row_for, rows
from proxy.demo.provider.asgi import (
    Header,
    Receive,
    Received,
    Scope,
    Send,
    receive_request,
    serve_lifespan,
    start_answer,
)
from proxy.demo.provider.asked import (
    ORDINARY,
    Asked,
    Bill,
    Refused,
    Reply,
    Request,
    Rules,
    Unit,
    chain,
    seal,
)
from proxy.demo.provider.cache import Prefix, PrefixCache
from proxy.wire.body import dumps, loads


@dataclass(slots=True)
class _Next:
    """What tests ordered for the coming requests."""

    refusals: list[tuple[int, bytes, tuple[Header, ...]]] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)


class Provider:
    """A strict provider on loopback.

    `count` is its tokenizer; `window` its context in tokens; `answers` what it says. `read_ratio` and `write_ratio`
    price cached and newly cached input for `paid`. `hidden_tokens` stands in every prompt without being visible
    (a preamble of the vendor's). `clock` gives Unix time and is what the cache's life is measured with.
    """

    def __init__(
        self,
        count: Callable[[str], int],
        *,
        window: int = 200_000,
        answers: Answers = echo,
        rules: Rules = ORDINARY,
        hidden_tokens: int = 0,
        read_ratio: float = 0.1,
        write_ratio: float = 1.25,
        cache_ttl_s: float = 300.0,
        cache_minimum: int = 1024,
        cache_granularity: int = 128,
        piece_chars: int = 160,
        models: Iterable[str] = ("demo-model",),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.received: list[Received] = []
        self.window = window
        self.rules = rules
        self.hidden_tokens = hidden_tokens
        self.delay_s = 0.0
        """Wait before the first byte of every answer."""
        self.pause_s = 0.0
        """Wait before every further event of a stream."""
        self.cache = PrefixCache(ttl_s=cache_ttl_s, minimum=cache_minimum, granularity=cache_granularity)
        self._count = count
        self._answers = answers
        self._ratios = (read_ratio, write_ratio)
        self._piece = piece_chars
        self._models = tuple(models)
        self._clock = clock
        self._counted: dict[bytes, int] = {}
        self._next = _Next()
        self._number = 0
        self._rows = rows()

    def refuse_next(
        self, status: int, body: Any = b"", *, times: int = 1, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Answer the next `times` requests with this error; `body` is bytes or a JSON value."""
        raw = body if isinstance(body, bytes) else dumps(body)
        lines = tuple((name.encode(), value.encode()) for name, value in headers)
        self._next.refusals += [(status, raw, lines)] * times

    def cut_next(self, events: int) -> None:
        """End the next answer's connection after so many events, without the end of its body."""
        self._next.cuts.append(events)

    def tokens(self, units: Iterable[Unit]) -> list[int]:
        """Tokens of each unit; counted once per content."""
        found = []
        for piece in units:
            known = self._counted.get(piece.rendered)
            if known is None:
                known = piece.overhead + sum(self._count(text) for text in piece.texts)
                self._counted[piece.rendered] = known
            found.append(known)
        return found

    def paid(self, bill: Bill) -> float:
        """The input's price in units of one uncached token."""
        read, write = self._ratios
        fresh = bill.input - bill.read - bill.written
        return fresh + read * bill.read + write * bill.written

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        if scope["type"] == "lifespan":
            await serve_lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        record = await receive_request(scope, receive)
        self.received.append(record)
        try:
            await self._serve(record, receive, send)
        except Refused as refused:
            if refused.events:
                await self._send_stream(record, iter(refused.events), "text/event-stream", receive, send)
                return
            await self._send_whole(record, send, refused.status, dumps(refused.body))

    async def _serve(self, record: Received, receive: Receive, send: Send) -> None:
        if self._next.refusals:
            status, body, headers = self._next.refusals.pop(0)
            await self._send_whole(record, send, status, body, headers)
            return
        if record.method == "GET" and record.path == "/v1/models":
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "demo"} for name in self._models]
            await self._send_whole(record, send, 200, dumps({"object": "list", "data": listed}))
            return
        found = row_for(self._rows, record.path)
        if found is None or record.method != "POST":
            message = f"Invalid URL ({record.method} {record.path})"
            raise Refused(404, {"error": {"message": message, "type": "invalid_request_error"}})
        row, arguments = found
        await self._answer(
            record, row, dict(parse_qsl(record.query)) | arguments | {"endpoint": row.verb}, receive, send
        )

    async def _answer(
        self, record: Received, row: Row, arguments: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        asked = row.api.asked(
            Request(body=_json(record, row), headers=record.headers, arguments=arguments, rules=self.rules)
        )
        sizes = self.tokens(asked.units)
        total = sum(sizes) + row.api.envelope.request + self.hidden_tokens
        if row.verb == "count":
            await self._send_whole(record, send, 200, dumps(row.api.counted(total)))
            return
        if total > self.window:
            raise row.api.overflow(asked, total, self.window)
        reply = self._reply(record, row, asked, sizes, total, arguments)
        record.bill, record.answer = reply.bill, reply.answer
        await asyncio.sleep(self.delay_s)
        if asked.stream:
            await self._send_stream(record, row.api.events(reply), row.api.content_type(reply), receive, send)
        else:
            await self._send_whole(record, send, 200, dumps(row.api.whole(reply)))

    def _reply(
        self, record: Received, row: Row, asked: Asked, sizes: list[int], total: int, arguments: Mapping[str, str]
    ) -> Reply:
        self._number += 1
        now = self._clock()
        answer = self._answers(asked, record.headers)
        reasoning = self._count(answer.reasoning) if answer.reasoning else 0
        spoken = self._count(answer.text) if answer.text else 0
        form = row.api.envelope
        calls = sum(
            self._count(call.name) + self._count(form.arguments(call.arguments)) + form.call for call in answer.calls
        )
        keys = chain(asked.units)
        read, written = self._cached(asked, keys, sizes, now)
        return Reply(
            asked=asked,
            answer=answer,
            bill=Bill(input=total, read=read, written=written, output=spoken + calls + reasoning, reasoning=reasoning),
            number=self._number,
            created=int(now),
            rules=self.rules,
            seal=seal(asked.bound or keys[-1]),
            piece=self._piece,
            arguments=arguments,
        )

    def _cached(self, asked: Asked, keys: list[bytes], sizes: list[int], now: float) -> tuple[int, int]:
        """Tokens read from and newly written to the prefix cache."""
        prefixes = [
            Prefix(key=key, tokens=tokens)
            for key, tokens in zip(keys, accumulate([self.hidden_tokens + sizes[0], *sizes[1:]]), strict=True)
        ]
        if asked.marks_cache is None:
            read, held = self.cache.automatic(prefixes, now)
            return read, held - read if self.rules.cache_writes else 0
        marks = {index for index, piece in enumerate(asked.units) if piece.marked}
        if asked.marks_cache:
            marks.add(len(keys) - 1)
        read, held = self.cache.marked(prefixes, marks, now)
        return read, held - read

    async def _send_whole(
        self, record: Received, send: Send, status: int, body: bytes, headers: tuple[Header, ...] = ()
    ) -> None:
        cut = self._next.cuts.pop(0) if self._next.cuts and status == 200 else None
        await start_answer(
            record, send, status, ((b"content-length", str(len(body)).encode()), *headers), "application/json"
        )
        if cut is None:
            await send({"type": "http.response.body", "body": body})
        else:
            await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})

    async def _send_stream(
        self, record: Received, events: Iterator[bytes], content_type: str, receive: Receive, send: Send
    ) -> None:
        cut = self._next.cuts.pop(0) if self._next.cuts else None
        leaving = asyncio.ensure_future(receive())
        try:
            await start_answer(record, send, 200, (), content_type)
            for number, event in enumerate(events):
                if number == cut:
                    # Returning with the body open makes the server close the socket: a cut stream.
                    return
                if number and self.pause_s:
                    await asyncio.sleep(self.pause_s)
                if leaving.done():
                    record.abandoned = True
                    return
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()


def _json(record: Received, row: Row) -> Mapping[str, Any]:
    try:
        value = loads(record.body)
    except ValueError as broken:
        raise row.api.broken() from broken
    if not isinstance(value, dict):
        raise row.api.broken()
    return value
