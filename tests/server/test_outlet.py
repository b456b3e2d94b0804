import asyncio
import fcntl
import io
import json
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time

import pytest
import structlog

from proxy.server import outlet as module
from proxy.server.events import configure, outlet
from proxy.server.outlet import Outlet


@pytest.fixture
def pipe():
    """A pipe of 4 KB, and the stream that writes to it."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with os.fdopen(write, "w") as stream:
        yield read, stream
    os.close(read)


def _all_of(read):
    os.set_blocking(read, False)
    found = b""
    try:
        while piece := os.read(read, 65536):
            found += piece
    except BlockingIOError:
        pass
    return found


LINE = b"x" * 99 + b"\n"


def test_lines_go_out_at_once_where_somebody_reads(pipe):
    read, stream = pipe
    Outlet(stream).put(b"one\ntwo\n")

    assert os.read(read, 100) == b"one\ntwo\n"


def test_nobody_who_does_not_read_holds_up_the_writer(pipe):
    read, stream = pipe
    out = Outlet(stream)
    for _ in range(1000):
        out.put(LINE)
    assert out.lost == 0
    first = _all_of(read)
    assert first == LINE * (len(first) // 100)
    out.put(b"last\n")
    second = _all_of(read)
    while more := (out.put(b""), _all_of(read))[1]:
        second += more

    assert first + second == LINE * 1000 + b"last\n"


def test_what_has_no_room_any_more_is_counted_and_the_rest_stays_whole(pipe, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 10_000)
    read, stream = pipe
    out = Outlet(stream)
    for _ in range(200):
        out.put(LINE)
    found = _all_of(read)
    while more := (out.put(b""), _all_of(read))[1]:
        found += more

    assert 0 < out.lost < 200
    assert found == LINE * (200 - out.lost)


@pytest.mark.anyio
async def test_what_waits_goes_out_without_another_line_and_what_was_lost_is_said(pipe, monkeypatch, capsys):
    monkeypatch.setattr(module, "_MOST_BYTES", 6_000)
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    read, stream = pipe
    out = Outlet(stream)
    with structlog.testing.capture_logs() as said:
        for _ in range(200):
            out.put(LINE)
        found = b""
        async with asyncio.timeout(30):
            while not said:
                found += _all_of(read)
                await asyncio.sleep(0.01)
    found += _all_of(read)

    assert said == [{"event": "log_lines_lost", "lines": out.lost, "log_level": "warning"}]
    assert found == LINE * (200 - out.lost)


def test_pieces_end_with_lines_so_that_other_writers_do_not_come_between(pipe):
    read, stream = pipe
    long = b"y" * 5000 + b"\n"
    out = Outlet(stream)
    out.put(LINE * 60 + long)

    pieces = []
    while piece := _all_of(read):
        pieces.append(piece)
        out.put(b"")
    assert pieces[0] == LINE * 40
    assert b"".join(pieces) == LINE * 60 + long


def test_a_reader_that_is_gone_breaks_nothing_and_its_lines_are_counted():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        out = Outlet(stream)
        out.put(b"one\ntwo\n")
        out.write("three\n")

        assert out.lost == 3


def test_a_stream_that_is_no_file_gets_text_and_one_that_is_missing_gets_nothing():
    text = io.StringIO()
    Outlet(text).put("größer\n".encode())
    Outlet(None).put(b"nobody\n")

    assert text.getvalue() == "größer\n"


def test_a_stream_that_was_closed_is_no_reader():
    text = io.StringIO()
    out = Outlet(text)
    text.close()
    out.put(b"one\n")

    assert out.lost == 1


def test_a_file_takes_everything(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        out = Outlet(stream)
        out.put(LINE * 10_000)

    assert (tmp_path / "log").read_bytes() == LINE * 10_000


def test_half_a_character_is_written_as_a_question_mark(pipe):
    read, stream = pipe
    Outlet(stream).write("a\ud800b\n")

    assert os.read(read, 100) == b"a?b\n"


def test_threads_do_not_mix_their_lines(tmp_path):
    with (tmp_path / "log").open("w") as stream:
        out = Outlet(stream)
        threads = [
            threading.Thread(target=lambda number=number: [out.put(b"%d" % number * 50 + b"\n") for _ in range(300)])
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = (tmp_path / "log").read_text().splitlines()

    assert len(lines) == 1200
    assert set(lines) == {str(number) * 50 for number in range(4)}


def test_a_terminal_that_is_held_holds_up_nobody_and_stays_as_it_was():
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream:
        out = Outlet(stream)
        termios.tcflow(slave, termios.TCOOFF)
        started = time.monotonic()
        for _ in range(5000):
            out.put(LINE)
        took = time.monotonic() - started
        termios.tcflow(slave, termios.TCOON)

        assert took < 5
        assert os.get_blocking(slave)
        seen = b""
        while len(seen) < 5000 * 101:
            out.put(b"")
            seen += os.read(master, 65536)
        assert seen.replace(b"\r", b"") == LINE * 5000
    os.close(master)


def test_the_end_waits_a_moment_for_a_slow_reader(pipe):
    read, stream = pipe
    out = Outlet(stream)
    out.put(LINE * 100)
    found = []
    reader = threading.Thread(target=lambda: found.append(os.read(read, 65536)) or found.append(_slowly(read)))
    reader.start()
    out.close()
    stream.close()
    reader.join()

    assert b"".join(found) == LINE * 100


def _slowly(read):
    found = b""
    while piece := os.read(read, 1000):
        found += piece
    return found


def test_the_end_does_not_wait_for_ever(pipe, monkeypatch):
    monkeypatch.setattr(module, "_LAST_S", 0.05)
    _, stream = pipe
    out = Outlet(stream)
    out.put(LINE * 100)
    started = time.monotonic()
    out.close()

    assert time.monotonic() - started < 5


def test_there_is_none_before_the_log_is_configured(capsys):
    assert outlet() is None
    configure(form="json", level="info")
    try:
        assert isinstance(outlet(), Outlet)
    finally:
        structlog.reset_defaults()


@pytest.mark.parametrize("form", ["json", "console"])
def test_calls_go_on_while_nobody_reads_the_log(form, tmp_path):
    """A real process, whose log is a pipe that nobody reads: several times what a pipe holds."""
    read, write = os.pipe()
    command = [sys.executable, "-m", "proxy", "serve", "--port", "0", "--log-format", form]
    # Nobody listens there: each call is refused, and said.
    command += ["--store", f"sqlite:///{tmp_path}/state.db", "--upstream", "openai=http://127.0.0.1:9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=write) as process:
        os.close(write)
        try:
            port = int(re.search(rb":(\d+)", process.stdout.readline())[1])
            statuses = asyncio.run(_called(port, 300))
        finally:
            process.terminate()
    told = _all_of(read)
    os.close(read)

    assert statuses == {502}
    # As far as the pipe takes it, whose pages are not filled to the end.
    assert len(told) > 40_000
    if form == "json":
        assert json.loads(told.splitlines()[0])["event"] == "upstream_failed"


async def _called(port, count):
    body = b'{"model":"m","messages":[{"role":"user","content":"%d"}]}'
    seen = set()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(count):
        said = body % number
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(said), said)
        )
        async with asyncio.timeout(30):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head)[1])
            await reader.readexactly(length)
        seen.add(int(head.split(b" ", 2)[1]))
    writer.close()
    return seen
