"""Workers as the processes they are: real forks, real signals, real connections."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from proxy.server.workers import endings, listeners
from tests.server.house import MODEL, a_provider
from tests.serving import serving as serving_asgi

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def serving(tmp_path, workers=2, flags=(), program=("-m", "proxy")):
    command = [sys.executable, *program, "serve", "--port", "0", "--workers", str(workers)]
    command += ["--store", f"sqlite:///{tmp_path}/state.db?timeout_s=10", *flags]
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log)
    try:
        port = int(re.search(rb":(\d+)", process.stdout.readline())[1])
        until(lambda: len(workers_of(process.pid)) == workers)
        yield process, port
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        log.close()


def workers_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def until(holds, seconds=20.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def healthy(port):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(10)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return connection.recv(100).startswith(b"HTTP/1.1 200 ")


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@needs_proc
def test_all_workers_serve_one_port(tmp_path):
    with serving(tmp_path) as (process, port):
        assert all(healthy(port) for _ in range(40))
        assert not any(pid == process.pid for pid in workers_of(process.pid))


@needs_proc
@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_parent_ends_all_cleanly(tmp_path, number):
    with serving(tmp_path) as (process, port):
        assert all(healthy(port) for _ in range(10))
        pids = workers_of(process.pid)
        process.send_signal(number)

        assert process.wait(20) == 0
        assert not any(alive(pid) for pid in pids)


@pytest.mark.usefixtures("hangups_heard")
def test_a_terminal_that_closes_ends_nothing_where_that_is_to_be_outlived(monkeypatch):
    assert set(endings()) == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.SIG_IGN)
    assert set(endings()) == {signal.SIGINT, signal.SIGTERM}


@needs_proc
def test_a_child_that_is_no_worker_may_end_as_those_do_that_a_container_gives_its_first_process(tmp_path):
    other = "import subprocess, sys; subprocess.Popen(['true']); from proxy.cli import main; sys.exit(main())"
    with serving(tmp_path, program=("-c", other)) as (process, port):
        assert all(healthy(port) for _ in range(10))
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0


@needs_proc
def test_a_worker_that_dies_gets_a_successor_and_no_connection_is_lost(tmp_path):
    with serving(tmp_path) as (process, port):
        assert healthy(port)
        first = workers_of(process.pid)
        # Too young to die otherwise than of what its successor would die of.
        time.sleep(2.2)
        os.kill(first[0], signal.SIGKILL)

        assert all(healthy(port) for _ in range(20))
        until(lambda: len(workers_of(process.pid)) == 2 and first[0] not in workers_of(process.pid))
        assert b'"worker_died"' in (tmp_path / "log").read_bytes()


def calls_counted(port):
    """What one scrape, which reaches any of the workers, says of calls that went well."""
    page = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=30).text
    return sum(
        float(value) for value in re.findall(r'^pruning_proxy_calls_total\{.*outcome="ok".*\} (.+)$', page, re.M)
    )


def ask(port):
    """One call on a connection of its own."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    assert httpx.post(url, json=body, trust_env=False, timeout=30).status_code == 200


@needs_proc
@pytest.mark.anyio
async def test_every_scrape_tells_the_calls_of_all_workers_also_of_one_that_has_died(tmp_path):
    async with serving_asgi(a_provider()) as upstream:
        with serving(tmp_path, flags=["--upstream", f"openai={upstream}"]) as (process, port):
            await asyncio.to_thread(counts_all, process, port)


def counts_all(process, port):
    began = time.monotonic()
    for _ in range(24):
        ask(port)
    # More scrapes than chance would lead to one worker only.
    until(lambda: {calls_counted(port) for _ in range(24)} == {24.0}, seconds=60)
    time.sleep(max(0.0, 2.2 - (time.monotonic() - began)))
    first = workers_of(process.pid)
    os.kill(first[0], signal.SIGKILL)
    until(lambda: len(workers_of(process.pid)) == 2 and first[0] not in workers_of(process.pid))

    for _ in range(6):
        ask(port)
    until(lambda: {calls_counted(port) for _ in range(24)} == {30.0}, seconds=60)


@needs_proc
def test_workers_leave_when_their_parent_was_killed(tmp_path):
    with serving(tmp_path) as (process, port):
        assert all(healthy(port) for _ in range(10))
        pids = workers_of(process.pid)
        process.kill()
        process.wait()

        until(lambda: not any(alive(pid) for pid in pids))


def test_several_sockets_share_a_port_and_one_that_is_taken_is_refused():
    some = listeners("127.0.0.1", 0, 3)
    try:
        port = some[0].getsockname()[1]
        assert {one.getsockname()[1] for one in some} == {port}
        with pytest.raises(OSError, match="in use"):
            listeners("127.0.0.1", port, 2)
    finally:
        for one in some:
            one.close()
