"""How Redis is asked: never for longer than the patience allows, and together by all calls that ask at the same time.

Of all that a round trip costs this process, most is redis-py's own work, once for each pipeline: so what the calls of one
turn of the event loop ask goes out in one, and each gets the answers to its own commands.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from proxy.errors import StoreError
from proxy.stores.patience import at_most
from proxy.stores.redis_client import FIRST_ANSWER_S

_AT_ONCE = 16
"""Round trips at the same time; more wait their turn, so that a burst opens no thousand connections."""
_TOGETHER_BYTES = 128 * 1024
"""Of one pipeline: its answers come as a whole, so a crowd's would come too late for all of it on a narrow line."""
_UNREACHED = re.compile(r"Error -?\d+ connecting to (?P<where>\S+)\. (?P<why>[^.(]+\w)")
"""What redis-py says when it gets no connection; nothing has been sent then that could stand in it."""
_WORD_BYTES = 512
"""What a command's word counts beside its own bytes: the answer to a key is an anchor, mostly."""

Command = tuple[str | bytes | int | float, ...]
"""Its name and its arguments."""


class Asking:
    """Asks through one client of redis-py's; `timeout_s` bounds each answer. Raises StoreError and nothing else."""

    def __init__(self, client: Any, timeout_s: float, *, together: bool) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._together = together
        self._turnstile = asyncio.Semaphore(_AT_ONCE)
        self._stuck_at = 0.0
        self._answered = False
        self._open: _Shared | None = None
        """Those of this turn of the loop."""
        self._sending: set[asyncio.Task[None]] = set()

    async def run(self, what: str, commands: Sequence[Command]) -> list[Any]:
        """The answers to these commands, in one round trip; StoreError for the first that the server refused."""
        if not self._together:
            async with self.bounded(what):
                return await self._answers(commands)
        shared, size_bytes = self._open, _size_bytes(commands)
        if shared is None or shared.size_bytes + size_bytes > _TOGETHER_BYTES:
            shared = self._open = _Shared()
            task = asyncio.get_running_loop().create_task(self._send(shared))
            self._sending.add(task)
            task.add_done_callback(partial(self._sent, shared))
        return await shared.wait(what, commands, size_bytes)

    @contextlib.asynccontextmanager
    async def bounded(self, what: str, timeout_s: float | None = None) -> AsyncIterator[None]:
        """Bounds the time and turns every failure into a StoreError without any value that was sent."""
        came_at = time.monotonic()
        limit_s = max(timeout_s or self._timeout_s, 0.0 if self._answered else FIRST_ANSWER_S)
        try:
            async with self._turnstile:
                if self._stuck_at >= came_at:
                    # Whoever waited here while another ran into the limit would only run into it too.
                    raise StoreError(f"redis store: no answer to calls before this {what}")
                async with at_most(limit_s):
                    yield
            self._answered = True
        except TimeoutError as error:
            self._stuck_at = time.monotonic()
            raise StoreError(f"redis store: no answer to {what} within {limit_s} s") from error
        except (RedisError, OSError) as error:
            raise _told(what, error) from error

    async def _send(self, shared: "_Shared") -> None:
        if self._open is shared:
            # Who asks from now on goes with the next one.
            self._open = None
        try:
            async with self.bounded(shared.what):
                answers = await self._answers(shared.commands, raising=False)
            shared.answered(answers)
        except StoreError as error:
            shared.failed(error)
        except Exception as error:  # noqa: BLE001  nobody else hears of it, and everybody waits
            shared.failed(_told(shared.what, error))

    def _sent(self, shared: "_Shared", task: asyncio.Task[None]) -> None:
        """Not at the end of `_send`: what is cancelled before it began never comes there."""
        self._sending.discard(task)
        if task.cancelled():
            if self._open is shared:
                self._open = None
            shared.failed(StoreError("redis store: closed"))

    async def _answers(self, commands: Sequence[Command], *, raising: bool = True) -> list[Any]:
        """In their order. Unless `raising`, a refusal among several stands in its answer's place."""
        if len(commands) == 1:
            return [await self._client.execute_command(*commands[0])]
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=raising)
        return answers


class _Shared:
    """The commands of several calls, and who waits for which of their answers."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.size_bytes = 0
        self._waiting: list[tuple[asyncio.Future[list[Any]], str, int, int]] = []

    @property
    def what(self) -> str:
        """What is asked, for errors."""
        return ", ".join(sorted({what for _, what, _, _ in self._waiting}))

    def wait(self, what: str, commands: Sequence[Command], size_bytes: int) -> asyncio.Future[list[Any]]:
        """For the answers to these, too."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        start = len(self.commands)
        self.commands += commands
        self.size_bytes += size_bytes
        self._waiting.append((future, what, start, len(self.commands)))
        return future

    def answered(self, answers: list[Any]) -> None:
        """All have come; refusals among them are their callers' own."""
        for future, what, start, end in self._waiting:
            own = answers[start:end]
            refused = next((answer for answer in own if isinstance(answer, Exception)), None)
            if future.done():
                continue
            if refused is None:
                future.set_result(own)
            else:
                future.set_exception(_told(what, refused))

    def failed(self, error: StoreError) -> None:
        """Whoever still waits gets nothing."""
        for future, _, _, _ in self._waiting:
            if not future.done():
                # Each its own: an error collects the frames of all that raise it.
                future.set_exception(StoreError(str(error)))


def _size_bytes(commands: Sequence[Command]) -> int:
    """Roughly what they and their answers are on the line."""
    own = sum([len(word) for command in commands for word in command if isinstance(word, bytes)])
    return own + sum(map(len, commands)) * _WORD_BYTES


def _told(what: str, error: Exception) -> StoreError:
    unreached = _UNREACHED.match(str(error))
    if unreached is not None:
        return StoreError(f"redis store: {what} failed: cannot reach {unreached['where']}: {unreached['why']}")
    # The server's texts repeat arguments of the command; the class and its first word say enough.
    word = str(error).partition(" ")[0]
    code = f" {word}" if word.isupper() and word.isalpha() else ""
    return StoreError(f"redis store: {what} failed: {type(error).__name__}{code}")
