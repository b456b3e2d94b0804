"""What goes out in the place of the client's own body."""

import gzip
import json

import pytest

from tests.builders import rounds, said, user
from tests.server.house import EAGER, MODEL, OFF, a_house, a_provider

pytestmark = pytest.mark.anyio

LONG = "alpha beta gamma delta " * 500


async def test_a_rewritten_body_goes_out_plain_and_an_untouched_one_as_it_came():
    provider = a_provider()
    headers = {"authorization": "Bearer k1", "content-encoding": "gzip", "content-type": "application/json"}
    async with a_house(provider, prune=EAGER, compact=OFF) as house:
        for history in ([user("hi")], [*rounds(LONG), said("read it"), user("next")]):
            body = gzip.compress(json.dumps({"model": MODEL, "messages": history}).encode())
            await house.http.post("/v1/chat/completions", content=body, headers=headers)

    untouched, rewritten = provider.received
    assert untouched.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in rewritten.headers
    assert json.loads(rewritten.body)["model"] == MODEL
