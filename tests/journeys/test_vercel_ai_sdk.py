"""The Vercel AI SDK under Node in front of the proxy sees what it would see without it."""

import asyncio
import json
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from proxy.demo.provider import Rules
from tests.journeys.world import a_world, thinking

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    # The first test waits for the packages, too.
    pytest.mark.timeout(180),
]

PROGRAM = Path(__file__).parent / "vercel"
INSTALL_TIMEOUT_S = 120
TALK_TIMEOUT_S = 30
OLDEST_NODE = 20
INSTALL = (
    *("install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"),
    # Versions are pinned, so what npm has kept is right; and without retries a machine that has no network skips soon.
    *("--prefer-offline", "--fetch-retries=0"),
)

REQUESTS = 6
"""Of one talk: two loops of two steps each, and two plain turns."""

TOOLS_PROMPT = {"hidden_tokens": 346}
"""Anthropic's own prompt about tools. Without it these short talks cost under a quarter of what we estimate, and usage
so low is not believed (`tokens.usage.is_possible`), so that nothing would be anchored."""


@pytest.fixture(scope="session")
def program():
    """The folder of talk.mjs with its packages beside it, where Node looks for them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        pytest.skip("node and npm are needed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    if not (found := re.match(r"v(\d+)\.", version)) or int(found[1]) < OLDEST_NODE:
        pytest.skip(f"node {OLDEST_NODE} or newer is needed, this is {version!r}")
    with TemporaryDirectory(prefix="pruning-proxy-vercel-", ignore_cleanup_errors=True) as folder:
        shutil.copytree(PROGRAM, folder, dirs_exist_ok=True)
        try:
            done = subprocess.run(
                [npm, *INSTALL, "--prefix", folder],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=INSTALL_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm install took more than {INSTALL_TIMEOUT_S} s")
        if done.returncode:
            pytest.skip(f"npm install failed: {' '.join(done.stderr.split())[:200]}")
        yield Path(folder)


async def heard_by(program, model, *urls):
    """What the SDK heard in the same talk at each of the URLs."""
    node = await asyncio.create_subprocess_exec(
        "node",
        "talk.mjs",
        model,
        *urls,
        cwd=program,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, complaints = await asyncio.wait_for(node.communicate(), TALK_TIMEOUT_S)
    finally:
        if node.returncode is None:
            node.kill()
            await node.wait()
    assert node.returncode == 0, complaints.decode()[-3000:]
    return json.loads(out)


def steps_of(heard):
    return [step for answer in heard for step in answer["steps"]]


def ours_taken(heard, name):
    """What the proxy's own header said in each step, taken out of what is compared."""
    return [step.pop(name) for step in steps_of(heard)]


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("chat", {}),
        ("compatible", {"answers": thinking}),
        ("responses", {}),
        ("responses-unstored", {"answers": thinking}),
        ("anthropic", TOOLS_PROMPT),
        ("anthropic-thinking", {"answers": thinking, **TOOLS_PROMPT}),
        ("google", {"answers": thinking, "rules": Rules(signatures_back=True)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "thinking" if "answers" in value else "plain",
)
async def test_an_agent_of_the_vercel_sdk_hears_the_same(program, model, provider):
    async with a_world(provider=provider) as world:
        direct, proxied = await heard_by(program, model, world.direct_url, world.proxy_url)

    bases, sessions = ours_taken(proxied, "basis"), ours_taken(proxied, "session")
    assert ours_taken(direct, "basis") == ours_taken(direct, "session") == [None] * REQUESTS
    assert proxied == direct
    assert [step["finish"] for step in steps_of(proxied)] == [
        "tool-calls",
        "stop",
        "tool-calls",
        "stop",
        "stop",
        "stop",
    ]
    assert [len(step["results"]) for step in steps_of(proxied)] == [2, 0, 1, 0, 0, 0]
    assert all(("reasoning" in step["kinds"]) == ("answers" in provider) for step in steps_of(proxied))
    assert all(step["usage"]["inputTokens"] and step["usage"]["outputTokens"] for step in steps_of(proxied))
    assert [record.status for record in world.behind.received] == [200] * REQUESTS
    assert bases == ["estimated", *["anchored"] * (REQUESTS - 1)]
    assert len(set(sessions)) == 1
