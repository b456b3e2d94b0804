"""One base URL for the SDKs of three vendors: each reaches its own vendor, and its key nobody else."""

from contextlib import AsyncExitStack, asynccontextmanager

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from proxy.server.assembly import assembled
from proxy.server.protocol import Protocol
from proxy.settings.values import Settings, Store, Upstream
from tests.serving import serving

pytestmark = [
    pytest.mark.anyio,
    # The SDK's own way of using aiohttp.
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]


class Vendor:
    """Answers everything with an empty list, and notes who asked for what."""

    def __init__(self):
        self.asked = []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        self.asked.append(f"{scope['method']} {scope['path']}")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"id":"x","data":[],"models":[],"has_more":false}'})


@asynccontextmanager
async def three_vendors():
    """The proxy's base URL, and the vendors behind it by name."""
    async with AsyncExitStack() as stack:
        vendors = {name: Vendor() for name in ("openai", "anthropic", "gemini")}
        there = {
            name: Upstream(base_url=await stack.enter_async_context(serving(one))) for name, one in vendors.items()
        }
        app = await stack.enter_async_context(assembled(Settings(upstreams=there, store=Store(url="memory://"))))
        yield await stack.enter_async_context(serving(app, http=Protocol)), vendors


async def an_openai_client(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client:
        await client.models.list()
        await client.files.create(file=("a.txt", b"text"), purpose="user_data")


async def an_anthropic_client(url):
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
        await client.models.list()
        await client.beta.files.upload(file=("a.txt", b"text"))


async def a_gemini_client(url, version):
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, api_version=version))
    await client.aio.models.list()
    await client.aio.files.list()
    await client.aio.aclose()
    client.close()


async def test_what_several_vendors_have_goes_to_the_one_whose_sdk_asks():
    async with three_vendors() as (url, vendors):
        await an_openai_client(url)
        await an_anthropic_client(url)
        for version in ("v1", "v1alpha", "v1beta"):
            await a_gemini_client(url, version)

    assert {name: one.asked for name, one in vendors.items()} == {
        "openai": ["GET /v1/models", "POST /v1/files"],
        "anthropic": ["GET /v1/models", "POST /v1/files"],
        "gemini": [f"GET /{version}/{what}" for version in ("v1", "v1alpha", "v1beta") for what in ("models", "files")],
    }
