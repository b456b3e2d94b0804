"""Several processes on one port, one for each core: a parent that only watches, and workers that serve.

Every worker has a listening socket of its own on the shared port, and the kernel spreads connections over them (Linux;
elsewhere they share one socket). The sockets are made before the workers, so a worker that dies loses no connection that
waits: its successor takes the same socket over.
"""

import contextlib
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass, field

import structlog

from proxy.server.slots import Slots

_YOUNG_S = 2.0
"""A worker that dies at this age or before dies of something that its successor would die of, too."""

log = structlog.get_logger("proxy.server")


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker knows of itself."""

    listener: socket.socket
    lifeline: int
    """File descriptor that becomes readable when the parent is gone, however it went."""
    index: int
    """Which of the workers it is; a successor gets its predecessor's."""
    slots: Slots
    """Memory that all of them see."""


def endings() -> tuple[signal.Signals, ...]:
    """The signals that ask a process to end: the closing of its terminal, too, unless it shall outlive that (`nohup`)."""
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if outlives else (signal.SIGHUP,)))


def listeners(host: str, port: int, count: int) -> list[socket.socket]:
    """Listening sockets for so many processes, all on one port. Raises OSError when it cannot be had."""
    first = _bound(host, port, shares=False)
    if count == 1:
        return [_listening(first)]
    if sys.platform != "linux":
        return [_listening(first), *(first.dup() for _ in range(count - 1))]
    # Bound alone at first: a port that another proxy shares in the same way would not be refused.
    port = first.getsockname()[1]
    first.close()
    return [_listening(_bound(host, port, shares=True)) for _ in range(count)]


def supervise(listening: list[socket.socket]) -> Worker | int:
    """Fork a worker for each socket. Returns in each as that worker; in the parent when all have ended, the exit code.

    A signal that asks the parent to end is passed on. A worker that dies otherwise gets a successor, unless it was too
    young to have served: then all end.
    """
    # What is still in the buffer would be written by every process.
    sys.stdout.flush()
    return _Parent(listening, Slots(len(listening))).run()


@dataclass(slots=True)
class _Parent:
    listening: list[socket.socket]
    slots: Slots
    born: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Process id → index and time of birth."""
    ending: int = 0
    """The signal that was passed on; 0 until then."""
    code: int = 0

    def run(self) -> Worker | int:
        # Nobody ever writes: the parent's end is what the workers see.
        lifeline, held = os.pipe()
        for number in endings():
            signal.signal(number, lambda number, _frame: self.end(number))
        for index in range(len(self.listening)):
            if not self.ending and self.fork(index):
                return self.born_as(index, lifeline, held)
        while self.born:
            pid, status = os.wait()
            if pid not in self.born:
                # The first process of a container inherits whatever else loses its parent there.
                continue
            index, since = self.born.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            if self.ending:
                # A worker that was still starting had no handler: it has ended as it was told to.
                self.code = self.code or (abs(code) if code != -self.ending else 0)
                continue
            log.error("worker_died", worker=index, exit_code=code)
            if time.monotonic() - since < _YOUNG_S:
                self.code = 1
                self.end(signal.SIGTERM)
            elif self.fork(index):
                return self.born_as(index, lifeline, held)
        os.close(lifeline)
        os.close(held)
        return self.code

    def fork(self, index: int) -> bool:
        """True in the worker."""
        # A signal that came between would be passed on by the worker, or not passed on to it.
        passed_on = endings()
        signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
        pid = os.fork()
        if pid == 0:
            # Ctrl-C reaches all processes of a terminal's group; a worker shall hear it once, from its parent.
            os.setpgid(0, 0)
            for number in passed_on:
                signal.signal(number, signal.SIG_DFL)
        else:
            self.born[pid] = (index, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
        return pid == 0

    def end(self, number: int) -> None:
        """Pass a signal on, and let nobody wait at a door that no worker will open."""
        self.ending = number
        for listener in self.listening:
            listener.close()
        for pid in self.born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def born_as(self, index: int, lifeline: int, held: int) -> Worker:
        """Keep what is this worker's."""
        os.close(held)
        for listener in self.listening:
            if listener is not self.listening[index]:
                listener.close()
        return Worker(self.listening[index], lifeline, index, self.slots)


def _bound(host: str, port: int, *, shares: bool) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shares:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def _listening(bound: socket.socket) -> socket.socket:
    bound.listen(2048)
    bound.setblocking(False)  # noqa: FBT003  the standard library wants it so
    return bound
