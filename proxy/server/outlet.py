"""Where log lines leave the process, which never waits for whoever reads them.

A terminal that is held with Ctrl-S, a pager, a collector that hangs: a pipe takes 64 KB and then holds its writer up, and with it
every call. Here lines wait in memory instead, up to a bound, and what has no room is counted, not written.
"""

import asyncio
import contextlib
import os
import select
import stat
import threading
import time
from collections import deque
from typing import Final, TextIO

import structlog

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of lines that wait: those of some thousands of calls."""
_PIECE_BYTES: Final = 4096
"""What can be written without waiting where anything can (PIPE_BUF of Linux), in one piece among other writers."""
_RETRY_S: Final = 0.2
_LAST_S: Final = 0.5
"""How long the end of the process waits for room."""

log = structlog.get_logger("proxy")


class Outlet:
    """Takes whole lines for a stream, from any thread, and raises nothing. Fulfils what structlog wants of a file."""

    def __init__(self, stream: TextIO | None) -> None:
        self.lost = 0
        """Lines without room, or without a reader."""
        self._told = 0
        """Of them, those that the log has spoken of."""
        self._stream = stream
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._retry: asyncio.TimerHandle | None = None
        self._file = _descriptor(stream)
        self._room: select.poll | None = None
        """None where writing never waits for a reader: that of a regular file."""
        if self._file is not None and not stat.S_ISREG(os.fstat(self._file).st_mode):
            self._room = select.poll()
            self._room.register(self._file, select.POLLOUT)

    def write(self, text: str) -> None:
        """Lines, as text."""
        self.put(text.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Nothing is held back that could be written."""

    def put(self, lines: bytes) -> None:
        """Lines, each with its end."""
        with self._lock:
            if self._waiting_bytes + len(lines) > _MOST_BYTES:
                self.lost += lines.count(b"\n")
                return
            # Mostly nothing waits, and there is room for all of it.
            rest = lines if self._waiting else lines[self._written(lines) :]
            if rest:
                self._waiting.append(rest)
                self._waiting_bytes += len(rest)
            if self._waiting:
                self._pour()

    def close(self) -> None:
        """Write what waits, as far as it goes within half a second. For the end of the process."""
        until = time.monotonic() + _LAST_S
        while self._waiting and time.monotonic() < until:
            with self._lock:
                self._pour()
            if self._waiting:
                time.sleep(0.01)

    def _again(self) -> None:
        with self._lock:
            self._retry = None
            self._pour()
            missing = 0
            if not self._waiting:
                missing, self._told = self.lost - self._told, self.lost
        if missing:
            log.warning("log_lines_lost", lines=missing)

    def _pour(self) -> None:
        while self._waiting:
            lines = self._waiting.popleft()
            self._waiting_bytes -= len(lines)
            written = self._written(lines)
            if written < len(lines):
                self._waiting.appendleft(lines[written:])
                self._waiting_bytes += len(lines) - written
                break
        if self._waiting and self._retry is None:
            # In a thread, without a loop, the next line tries.
            with contextlib.suppress(RuntimeError):
                self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._again)

    def _written(self, lines: bytes) -> int:
        """How many of the bytes need no second try."""
        done = 0
        try:
            if self._file is None:
                _into(self._stream, lines)
                return len(lines)
            while done < len(lines) and (self._room is None or self._room.poll(0)):
                done += os.write(self._file, lines if self._room is None else _piece(lines, done))
        except BlockingIOError:
            return done
        except (OSError, ValueError):
            # Nobody reads any more, the disk is full, or the stream was closed.
            self.lost += lines.count(b"\n", done)
            return len(lines)
        return done


def _piece(lines: bytes, start: int) -> bytes:
    """So much as can be written at one go, if possible up to the end of a line."""
    if len(lines) - start <= _PIECE_BYTES:
        return lines[start:] if start else lines
    end = lines.rfind(b"\n", start, start + _PIECE_BYTES) + 1
    return lines[start : end or start + _PIECE_BYTES]


def _into(stream: TextIO | None, lines: bytes) -> None:
    if stream is not None:
        stream.write(lines.decode("utf-8", "replace"))
        stream.flush()


def _descriptor(stream: TextIO | None) -> int | None:
    """Where the stream's bytes go; None where that is no file of the system.

    A terminal is opened once more: that it must not wait is said of an open file, and this one is shared with the shell.
    """
    try:
        file = stream.fileno() if stream is not None else None
        if file is not None and os.isatty(file):
            return os.open(os.ttyname(file), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError, AttributeError):
        return None
    return file
