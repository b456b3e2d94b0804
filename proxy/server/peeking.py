"""What an answer means to us, before any of it is passed on: a refusal, or an overflow behind a 200.

What is read for that is held back, and only where a refusal or an overflow is possible at all.
"""

import time

from proxy.dialects.base import Observation, Reader, Refusal
from proxy.dialects.unannounced import reader_for
from proxy.errors import ProxyError
from proxy.server.call import Call, Shared
from proxy.server.engines.base import UpstreamResponse
from proxy.wire.encoding import ChunkDecoder, Corrupt
from proxy.wire.headers import first, is_event_stream

# Statuses that may be about the body; 429, 401 and the like never are.
_ABOUT_THE_BODY = frozenset({400, 413, 422, 500})
_OK = 200
_FULL = frozenset({"model_context_window_exceeded"})
_CUT = frozenset({"length", "max_tokens"})
_MOST_ERROR_BYTES = 1024 * 1024
_MOST_PEEKED_CHUNKS = 16
_MOST_PEEK_S = 5.0
"""A refusal comes at once; what comes later are signs of life (DeepSeek sends them for up to ten minutes)."""
_PEEK_SHARE = 0.7
"""Of the window: a stream is looked into for an overflow before it is passed on only where one is possible."""
_PEEK_TOKENS = 4_000


def may_mean(shared: Shared, call: Call, answer: UpstreamResponse) -> bool:
    """Whether the answer can be one that is worth another try, so that it has to be looked into."""
    return is_about_the_body(answer) or _may_overflow(shared, call)


def is_about_the_body(answer: UpstreamResponse) -> bool:
    """Whether its status is one with which a body is refused."""
    return answer.status in _ABOUT_THE_BODY


async def refusal_in(call: Call, answer: UpstreamResponse, held: list[bytes]) -> Refusal | None:
    """What the answer means, as far as it is a refusal; the chunks that are read for it are `held`, for passing them on."""
    if is_about_the_body(answer):
        return call.dialect.refusal(answer.status, await _read_error(answer, held))
    streams = call.received.conversation.stream
    if is_event_stream(answer.headers) or (streams and answer.status == _OK):
        return await _peeked(call, answer, held)
    if answer.status != _OK:
        return None
    reader = call.dialect.reader(stream=False)
    reader.feed(await _read_error(answer, held))
    return _meant(call, reader.finish(complete=answer.complete))


async def understood(shared: Shared, call: Call, answer: UpstreamResponse, held: list[bytes]) -> Refusal | None:
    """The same of a second answer: what its reader trips over, the client can read."""
    try:
        return await refusal_in(call, answer, held)
    except Exception as error:  # noqa: BLE001  whatever it was
        shared.watch.failed("refusal", error)
        return None


def _may_overflow(shared: Shared, call: Call) -> bool:
    context = call.ready.context
    if (window := known_window(shared, call)) is None:
        return context.total > _PEEK_TOKENS
    return context.total + context.reserve > _PEEK_SHARE * window


def known_window(shared: Shared, call: Call) -> int | None:
    """The window by which an overflow can be told from other refusals; None where none is known for certain."""
    guessed = shared.habits.guessed
    if guessed and (call.exchange.route.upstream_name, call.received.conversation.model) in guessed:
        return None
    return call.ready.context.window


async def _peeked(call: Call, answer: UpstreamResponse, held: list[bytes]) -> Refusal | None:
    """What an error means that comes before a stream's first content."""
    began = time.monotonic()
    while chunk := await answer.read():
        held.append(chunk)
        reader = reader_of(call, answer)
        reader.feed(_plain(answer, b"".join(held)))
        seen = reader.finish(complete=False)
        refusal = _meant(call, seen)
        if refusal is not None or seen.outcome == "error":
            return refusal
        if seen.has_content or len(held) >= _MOST_PEEKED_CHUNKS or time.monotonic() - began > _MOST_PEEK_S:
            break
    return None


def reader_of(call: Call, answer: UpstreamResponse, *, keep_reasoning: bool = False) -> Reader:
    """For the answer to this call, whether or not its headers say that it streams."""
    announced, wanted = is_event_stream(answer.headers), call.received.conversation.stream
    return reader_for(call.dialect, announced=announced, wanted=wanted, keep_reasoning=keep_reasoning)


def _meant(call: Call, seen: Observation) -> Refusal | None:
    """What an answer behind a 200 means that holds nothing of the model's: an error, or a window that was full."""
    if seen.has_content:
        return None
    if seen.outcome == "error":
        return call.dialect.refusal(_OK, seen.error_text.encode())
    # Z.ai and newer Claude models say so; Xiaomi answers nothing at all, for want of room.
    silent = seen.finish.lower() in _CUT and seen.usage.output_tokens == 0
    return Refusal(kind="overflow") if seen.finish in _FULL or silent else None


async def _read_error(answer: UpstreamResponse, held: list[bytes]) -> bytes:
    """An error answer's text, bounded."""
    size = 0
    while chunk := await answer.read():
        held.append(chunk)
        size += len(chunk)
        if size > _MOST_ERROR_BYTES:
            break
    return _plain(answer, b"".join(held))


def _plain(answer: UpstreamResponse, raw: bytes) -> bytes:
    """What has come of an answer without its content encoding, bounded; as it came where that cannot be read."""
    encoding = first(answer.headers, b"content-encoding")
    if encoding is None:
        return raw
    pieces: list[bytes] = []
    try:
        for piece in ChunkDecoder(encoding).feed(raw):
            pieces.append(piece)
            if sum(map(len, pieces)) > _MOST_ERROR_BYTES:
                break
    except (ProxyError, Corrupt):
        return raw
    return b"".join(pieces)
