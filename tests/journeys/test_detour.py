"""The proxy as a user behind a company's HTTP proxy starts it."""

import os
import re
import subprocess
import sys

import httpx
import pytest

from tests.server.engines.raw import answering, raw_server

pytestmark = pytest.mark.anyio

ANSWER = (
    b'{"choices":[{"message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}'
)
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


async def test_calls_go_through_the_proxy_that_the_environment_names(tmp_path):
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(ANSWER),
        ANSWER,
    )
    async with raw_server(answering(answer)) as between:
        environ = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        command = [sys.executable, "-m", "proxy", "serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/state.db"]
        command += ["--upstream", "openai=http://models.example:8000"]
        with subprocess.Popen(
            command, env=environ | {"HTTP_PROXY": between.url}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                port = int(re.search(rb":(\d+)", process.stdout.readline())[1])
                async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                    got = await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=BODY)
            finally:
                process.terminate()

    assert (got.status_code, got.content) == (200, ANSWER)
    assert between.heads[0].startswith(b"POST http://models.example:8000/v1/chat/completions HTTP/1.1\r\n")
