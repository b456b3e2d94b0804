import json

import anthropic
import openai
import pytest

from proxy.server.refusals import error_body, send_json
from proxy.wire.path import route
from tests.serving import serving


def test_without_a_route_the_format_is_openais():
    body = json.loads(error_body(None, 400, "invalid_request_error", "no"))

    assert body == {
        "error": {"message": "no", "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
    }


def test_gemini_clients_read_googles_format():
    body = json.loads(error_body(route("/v1beta/models/g:generateContent"), 413, "request_too_large", "too large"))

    assert body == {"error": {"code": 413, "message": "too large", "status": "INVALID_ARGUMENT"}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "error_type"), [(401, "AuthenticationError"), (404, "NotFoundError"), (502, "InternalServerError")]
)
async def test_official_clients_raise_the_right_error(status, error_type):
    async def refusing(scope, receive, send):
        if scope["type"] == "http":
            await send_json(send, status, error_body(route(scope["path"]), status, "a_kind", "a text"))

    async with serving(refusing) as url:
        chat = openai.AsyncOpenAI(api_key="k", base_url=url + "/v1", max_retries=0)
        claude = anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0)
        async with chat, claude:
            with pytest.raises(getattr(openai, error_type)) as from_openai:
                await chat.models.list()
            with pytest.raises(getattr(anthropic, error_type)) as from_anthropic:
                await claude.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])

    assert from_openai.value.code == "a_kind"
    assert "a text" in str(from_openai.value)
    assert from_anthropic.value.body == {"type": "error", "error": {"type": "a_kind", "message": "a text"}}
