"""Real Redis servers on loopback ports, which tests start, freeze, kill and bring back."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time

BINARY = shutil.which("redis-server")
CLI = shutil.which("redis-cli")


BUS = 10_000
"""A cluster's nodes talk to each other on a port that is so much higher."""


def free_port():
    """A port that is free together with its bus; both below those that systems give to outgoing connections."""
    while True:
        port = random.randrange(12_000, 22_000)
        with contextlib.suppress(OSError), socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + BUS))
            return port


class RedisServer:
    """One redis-server process, nothing on disk but its directory."""

    def __init__(self, directory, *options, port=None):
        self.port = port or free_port()
        self.directory = directory
        self.options = options
        self.process = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        self.process = subprocess.Popen(
            [BINARY, *self._arguments(), *self.options],
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()
        return self

    def _arguments(self):
        values = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        return [word for name, value in values.items() for word in (f"--{name}", str(value))]

    def _wait(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=0.2):
                    return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"redis-server did not listen on {self.port}")

    def cli(self, *words):
        done = subprocess.run(
            [CLI, "-p", str(self.port), *words], capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class RedisCluster:
    """Three primaries without replicas, each with a third of the slots."""

    def __init__(self, directory):
        self.nodes = [
            RedisServer(directory / str(number), "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
            for number in range(3)
        ]

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self):
        for node in self.nodes:
            node.start()
        places = [f"127.0.0.1:{node.port}" for node in self.nodes]
        subprocess.run(
            [CLI, "--cluster", "create", *places, "--cluster-yes"], check=True, capture_output=True, timeout=60
        )
        deadline = time.monotonic() + 20
        while not all("cluster_state:ok" in node.cli("cluster", "info") for node in self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError("the cluster did not come up")
            time.sleep(0.1)
        return self

    def cli(self, *words):
        for node in self.nodes:
            node.cli(*words)

    def kill(self):
        for node in self.nodes:
            node.kill()


class Sentinels(RedisServer):
    """One sentinel that watches one server under the name `ledger`."""

    def __init__(self, directory, watched):
        super().__init__(directory)
        self.watched = watched

    @property
    def url(self):
        return f"redis+sentinel://127.0.0.1:{self.port}/ledger/0"

    def start(self):
        config = self.directory / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\nsentinel monitor ledger 127.0.0.1 {self.watched.port} 1\n"
        )
        self.process = subprocess.Popen(
            [BINARY, str(config), "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()
        return self
