"""The image and the service: what of their files can be tried without building or installing anything."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from proxy.server.app import DRAIN_S
from proxy.server.settling import SETTLE_S
from proxy.settings.load import load
from proxy.settings.values import Settings, Upstream
from tests.journeys.nginx import NGINX, nginx_command

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
CONFIG = {path.name: path.read_text("utf-8") for path in (ROOT / "config").iterdir()}


@pytest.fixture(params=[(200, 0), (503, 1)], ids=["healthy", "unhealthy"])
def server(request):
    """Port of a server whose /healthz answers with a status, and the exit code that the check owes it."""
    status, code = request.param

    class Health(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Health) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening.server_port, code
        listening.shutdown()
        thread.join()


def test_the_health_check_follows_the_answer_and_the_configured_port(server):
    port, code = server
    program, *arguments = json.loads(re.search(r'CMD (\["python", "-c".*\])', DOCKERFILE)[1])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PRUNING_PROXY__SERVER__PORT": str(port)},
        capture_output=True,
        timeout=30,
    )

    assert program == "python"
    assert done.returncode == code


def test_what_a_start_imports_is_compiled_before_anybody_starts_it():
    base = DOCKERFILE.rpartition("\nFROM ")[2]

    assert base.index("compileall") < base.index("\nUSER")
    assert "PYTHONDONTWRITEBYTECODE" not in DOCKERFILE
    assert "--no-compile" not in DOCKERFILE


def test_nothing_runs_as_root():
    """By its number: with a name, Kubernetes cannot tell whether `runAsNonRoot` holds."""
    user = re.search(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)

    assert int(user[1]) > 0
    assert user.start() < DOCKERFILE.index("ENTRYPOINT")


def test_the_user_is_none_that_debian_has_already():
    """`useradd` fails on those; the first block of numbers is the same on every Debian."""
    *_, name = re.search(r"^RUN useradd (.+)$", DOCKERFILE, re.MULTILINE)[1].split()

    assert name not in {"root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy"}
    assert name not in {"www-data", "backup", "list", "irc", "nobody"}


def ignored():
    """What of the repository a build sees: `.dockerignore` lists exceptions from everything."""
    return {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").split() if line.startswith("!")}


def test_all_that_is_copied_exists_and_reaches_the_build():
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]

    assert {"pyproject.toml", "proxy", "config"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name in ignored(), name


def test_what_is_packed_beside_the_package_is_copied_too():
    """The build reads these files: without one of them `pip install .` ends in an error."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = {project["project"]["readme"], *project["project"].get("license-files", ())}
    copied = " ".join(re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)).split()

    assert {name for name in wanted if "*" not in name} <= set(copied)


def test_the_extras_and_the_command_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = re.search(r"pip .*install [^'\n]*'\.\[([a-z,]+)\]'", DOCKERFILE)[1].split(",")
    (command,) = json.loads(re.search(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE)[1])

    assert set(extras) <= set(project["optional-dependencies"])
    assert command in project["scripts"]


def test_the_variables_that_are_set_are_settings():
    names = set(
        re.findall(r"PRUNING_PROXY__[A-Z_]+", DOCKERFILE + CONFIG["docker-compose.yml"] + CONFIG["kubernetes.yaml"])
    )
    values = {"PORT": "1", "URL": "memory://", "HOST": "0.0.0.0", "TOKEN": "t"}

    assert names
    load(None, environ={name: values[name.rpartition("_")[2]] for name in names})


def test_a_stop_leaves_running_streams_their_time():
    grace = int(re.search(r"stop_grace_period: (\d+)s", CONFIG["docker-compose.yml"])[1])
    ends = int(re.search(r"terminationGracePeriodSeconds: (\d+)", CONFIG["kubernetes.yaml"])[1])
    before = int(re.search(r'preStop:\s+exec: \{command: \["sleep", "(\d+)"\]\}', CONFIG["kubernetes.yaml"])[1])

    assert grace > DRAIN_S
    assert ends - before > DRAIN_S


def test_the_user_of_the_image_is_the_one_that_kubernetes_runs():
    assert re.search(r"runAsUser: (\d+)", CONFIG["kubernetes.yaml"])[1] == re.search(r"--uid (\d+)", DOCKERFILE)[1]


def test_all_ports_are_the_same_one():
    port = str(Settings().server.port)

    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert f"containerPort: {port}}}" in CONFIG["kubernetes.yaml"]
    assert f"listen {port};" in CONFIG["nginx.conf"]
    assert f"server proxy:{port} " in CONFIG["nginx.conf"]
    assert f'"127.0.0.1:{port}:{port}"' in CONFIG["docker-compose.yml"]


def test_nginx_waits_longer_than_the_proxy():
    read_s = float(re.search(r"proxy_read_timeout (\d+)s", CONFIG["nginx.conf"])[1])

    assert read_s > Upstream().timeout_s


@pytest.mark.skipif(NGINX is None, reason="no nginx on this machine")
def test_nginx_understands_its_configuration(tmp_path):
    done = subprocess.run([*nginx_command(tmp_path), "-t"], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr


def test_a_machine_that_runs_in_kubernetes_has_variables_that_are_none_of_ours():
    """The addresses of a service that has our name."""
    links = {"PRUNING_PROXY_PORT": "tcp://10.0.0.1:8787", "PRUNING_PROXY_SERVICE_HOST": "10.0.0.1"}

    assert load(None, environ=links) == load(None, environ={})


def test_systemd_waits_longer_than_the_proxy():
    stop_s = float(re.search(r"TimeoutStopSec=(\d+)", CONFIG["pruning-proxy.service"])[1])

    assert stop_s > DRAIN_S + SETTLE_S


def test_systemd_does_not_try_again_what_cannot_become_right():
    """A wrong setting ends with the status that the unit names."""
    status = int(re.search(r"RestartPreventExitStatus=(\d+)", CONFIG["pruning-proxy.service"])[1])
    done = subprocess.run([sys.executable, "-m", "proxy", "serve", "--mode", "bad"], capture_output=True, timeout=60)

    assert done.returncode == status


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_understands_its_unit(tmp_path):
    program = tmp_path / "pruning-proxy"
    program.touch(mode=0o755)
    unit = tmp_path / "pruning-proxy.service"
    unit.write_text(CONFIG[unit.name].replace("%h/.local/bin/pruning-proxy", str(program)))
    command = ["systemd-analyze", "verify", "--user", str(unit)]
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
