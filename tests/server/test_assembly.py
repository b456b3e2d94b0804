import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from proxy.errors import SettingsError
from proxy.server.assembly import assembled
from proxy.settings.values import Settings, Store, Upstream
from tests.builders import said, user
from tests.server.house import MODEL, a_provider
from tests.serving import serving

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def settings_for(url, store):
    return Settings(upstreams={"openai": Upstream(base_url=url)}, store=Store(url=store))


async def ask(base, history):
    async with httpx.AsyncClient(base_url=base, timeout=10.0) as http:
        return await http.post("/v1/chat/completions", json={"model": MODEL, "messages": history})


async def test_it_serves_calls_and_its_own_pages():
    async with (
        serving(a_provider()) as url,
        assembled(settings_for(url, "memory://")) as app,
        serving(app) as base,
        httpx.AsyncClient(base_url=base) as http,
    ):
        answer = await ask(base, [user("hello")])
        health = await http.get("/healthz")

    assert answer.status_code == health.status_code == 200
    assert answer.headers["x-context-basis"] == "estimated"


async def test_anchors_survive_a_restart_in_the_default_store(tmp_path):
    store = f"sqlite://{tmp_path}/state.db?timeout_s=10"
    answers = []
    async with serving(a_provider()) as url:
        for history in ([user("hello")], [user("hello"), said("You said: hello"), user("again")]):
            async with assembled(settings_for(url, store)) as app, serving(app) as base:
                answers.append(await ask(base, history))

    assert [answer.headers["x-context-basis"] for answer in answers] == ["estimated", "anchored"]
    assert len({answer.headers["x-context-session"] for answer in answers}) == 1


@pytest.mark.parametrize(("first", "then", "basis"), [("a", "a", "anchored"), ("a", "b", "estimated")])
async def test_what_is_sealed_is_known_again_only_with_its_key(tmp_path, first, then, basis):
    answers = []
    async with serving(a_provider()) as url:
        for letter, history in (
            (first, [user("hello")]),
            (then, [user("hello"), said("You said: hello"), user("again")]),
        ):
            store = Store(url=f"sqlite://{tmp_path}/state.db?timeout_s=10", key=letter * 16)
            settings = Settings(upstreams={"openai": Upstream(base_url=url)}, store=store)
            async with assembled(settings) as app, serving(app) as base:
                answers.append(await ask(base, history))

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[1].headers["x-context-basis"] == basis


async def test_a_wrong_store_url_ends_the_start():
    with pytest.raises(SettingsError, match="store"):
        async with assembled(settings_for("http://127.0.0.1:9", "carrier-pigeon://loft")):
            pass


async def test_a_second_process_knows_the_conversation_of_the_first(tmp_path):
    """Processes as users start and end them."""
    script = ROOT / "tests" / "cases" / "proxy_process.py"
    config = tmp_path / "proxy.toml"
    answers, logs = [], []
    async with serving(a_provider()) as url:
        config.write_text(
            f'[server]\nport = 0\n[store]\nurl = "sqlite://{tmp_path}/state.db?timeout_s=10"\n'
            f'[upstreams.openai]\nbase_url = "{url}"\n'
        )
        for history in ([user("hello")], [user("hello"), said("You said: hello"), user("again")]):
            process = subprocess.Popen(
                [sys.executable, str(script), str(config)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
            with process:
                port = int(process.stdout.readline())
                answers.append(await ask(f"http://127.0.0.1:{port}", history))
                process.send_signal(signal.SIGTERM)
                logs += process.stderr.read().splitlines()
                assert process.wait(10) == 0

    events = [json.loads(line) for line in logs if b"context_estimate" in line]
    assert [answer.headers["x-context-basis"] for answer in answers] == ["estimated", "anchored"]
    assert [event["turn"] for event in events] == [1, 2]
