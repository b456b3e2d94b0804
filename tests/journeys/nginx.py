"""The services of config/docker-compose.yml as processes of this machine: nginx and Redis as that file runs them."""

import asyncio
import re
import shlex
import shutil
import socket
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

from tests.stores.servers import free_port

NGINX = shutil.which("nginx")
_CONFIG = Path(__file__).parents[2] / "config"


def redis_options():
    """What the compose file tells its redis-server."""
    compose = (_CONFIG / "docker-compose.yml").read_text("utf-8")
    program, *options = shlex.split(re.search(r"^    command: (redis-server .+)$", compose, re.MULTILINE)[1])
    assert program == "redis-server"
    return options


def nginx_command(directory, ports=(8787,), listen=8787):
    """nginx with config/nginx.conf, but for the places on this machine: addresses, the process id's file, folders of its own.

    Docker's names are not known here, and `resolve` wants nginx 1.27.3.
    """
    text = (_CONFIG / "nginx.conf").read_text("utf-8")
    replicas = " ".join(rf"server 127.0.0.1:{port} \1;" for port in ports)
    folders = " ".join(f"{kind}_temp_path {directory}/{kind};" for kind in _FOLDERS)
    for before, now in (
        (r"server proxy:8787 resolve ([^;]+);", replicas),
        (r"listen 8787;", f"listen 127.0.0.1:{listen};"),
        (r"pid /tmp/nginx.pid;", f"pid {directory}/nginx.pid;"),
        (r"http \{", f"http {{ {folders}"),
    ):
        text, found = re.subn(before, now, text)
        assert found == 1, before
    file = directory / "nginx.conf"
    file.write_text(text, "utf-8")
    return [NGINX, "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(file)]


_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@asynccontextmanager
async def nginx_before(ports, directory):
    """nginx in front of proxies on these ports; gives its base URL."""
    listen = free_port()
    command = nginx_command(directory, ports, listen)
    with subprocess.Popen([*command, "-g", "daemon off;"]) as process:
        try:
            async with asyncio.timeout(60):
                while not _listens(listen):
                    assert process.poll() is None, (directory / "error.log").read_text()
                    await asyncio.sleep(0.02)
            yield f"http://127.0.0.1:{listen}"
        finally:
            process.terminate()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
