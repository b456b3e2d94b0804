"""What is measured, as processes on the second core: nothing at all (direct), a bare nginx, and the proxy."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
CORES = sorted(os.sched_getaffinity(0))

_NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1; master_process on;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
    access_log off; keepalive_requests 100000000; client_max_body_size 64m; client_body_buffer_size 16m;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream up {{ server 127.0.0.1:{upstream}; keepalive 2048; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 600s;
        }}
    }}
}}
"""


@dataclass
class Target:
    """One thing to send calls through."""

    name: str
    port: int
    process: subprocess.Popen[bytes] | None = None
    files: list[Path] = field(default_factory=list)
    started_s: float = 0.0
    """From its start to its first answer on any page."""

    def cpu_s(self) -> float:
        """CPU time so far of its processes, in seconds; 0 for direct."""
        return sum(_cpu_s(pid) for pid in self._pids())

    def memory_mb(self) -> float:
        """Resident memory of its processes."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._pids())
        return pages * os.sysconf("SC_PAGESIZE") / 1e6

    def _pids(self) -> list[int]:
        return [] if self.process is None else _family(self.process.pid)


def _family(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += _family(int(child))
    return found


def _cpu_s(pid: int) -> float:
    """Time on a core of all threads, by the scheduler: the same sum as utime + stime, but not in ticks of 10 ms."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def on_core(core: int) -> list[str]:
    """The command prefix that keeps a process on one of this machine's cores, where that can be said."""
    return ["taskset", "-c", str(CORES[core % len(CORES)])] if shutil.which("taskset") and len(CORES) > 1 else []


@contextlib.contextmanager
def upstream() -> Iterator[int]:
    """The scripted upstream on the first core; its port."""
    command = [*on_core(0), sys.executable, "-m", "tests.bench.cost.upstream"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        yield int(process.stdout.readline())
    finally:
        _end(process)


@contextlib.contextmanager
def nginx(port_of_upstream: int, folder: Path) -> Iterator[Target]:
    """A bare nginx that passes everything on as it comes."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, upstream=port_of_upstream, port=port))
    command = [*on_core(1), "nginx", "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(config)]
    started = time.perf_counter()
    process = subprocess.Popen(command)
    try:
        _wait(port)
        yield Target("nginx", port, process, [config], time.perf_counter() - started)
    finally:
        _end(process)


@contextlib.contextmanager
def proxy(
    port_of_upstream: int,
    folder: Path,
    *,
    name: str = "ours",
    store: str = "",
    config: str = "",
    workers: int = 1,
    free: bool = False,
) -> Iterator[Target]:
    """The proxy as users start it; everything it logs goes to a file. `free`: on whichever core."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "proxy.toml"
    settings.write_text(config)
    store = store or f"sqlite:///{folder}/state.db"
    log = folder / "log.jsonl"
    address = f"http://127.0.0.1:{port_of_upstream}"
    command = [*([] if free else on_core(1)), sys.executable, "-m", "proxy", "serve", "--port", "0"]
    command += ["--store", store, "--config", str(settings), "--workers", str(workers)]
    for upstream_name in ("openai", "anthropic", "gemini"):
        command += ["--upstream", f"{upstream_name}={address}"]
    # Installed packages are compiled: a start that compiles everything anew tells nothing.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=written)
    try:
        line = process.stdout.readline().decode()
        said = re.search(r":(\d+)", line)
        assert said, f"the proxy did not start: {line!r} {log.read_text()[-2000:]}"
        port = int(said[1])
        _wait(port)
        yield Target(name, port, process, [log], time.perf_counter() - started)
    finally:
        _end(process)


def _wait(port: int) -> None:
    """Until an HTTP request gets any answer."""
    for _ in range(2000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: bench\r\n\r\n")
            if connection.recv(100):
                return
        time.sleep(0.002)
    raise TimeoutError(f"nobody listens on {port}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
