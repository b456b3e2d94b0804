"""The image: what of the Dockerfile can be tried without building it."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

DOCKERFILE = (Path(__file__).parent.parent / "Dockerfile").read_text("utf-8")


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


def test_nothing_runs_as_root():
    assert DOCKERFILE.index("USER proxy") < DOCKERFILE.index("ENTRYPOINT")
