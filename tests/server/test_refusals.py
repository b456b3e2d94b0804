import json

import anthropic
import openai
import pytest

from proxy.server.refusals import error_body, send_json
from proxy.wire.path import route, unchecked
from tests.serving import serving

OPENAIS = {"error": {"message": "no", "type": "a_kind", "param": None, "code": "a_kind"}}
ANTHROPICS = {"type": "error", "error": {"type": "a_kind", "message": "no"}}
GOOGLES = {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}
VERTEX = "/up/vertex/v1/projects/p/locations/l/publishers"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/chat/completions", OPENAIS),
        ("/v1/responses", OPENAIS),
        ("/v1/messages", ANTHROPICS),
        ("/v1beta/models/g:generateContent", GOOGLES),
        # Whose format it is tells the call, wherever it goes.
        (VERTEX + "/google/models/g:streamGenerateContent", GOOGLES),
        (VERTEX + "/anthropic/models/c:rawPredict", ANTHROPICS),
        ("/up/zai/api/anthropic/v1/messages", ANTHROPICS),
        # Calls that nobody models.
        ("/v1/messages/batches", ANTHROPICS),
        ("/upload/v1beta/files", GOOGLES),
        ("/v1/models", OPENAIS),
        # Paths that are refused.
        ("/v1/messages/%2e%2e/x", ANTHROPICS),
        ("/up/zai/v1/messages/../x", ANTHROPICS),
        ("/v1beta/../x", GOOGLES),
        ("/v1/../x", OPENAIS),
    ],
)
def test_an_error_is_in_the_format_of_who_calls(path, said):
    assert json.loads(error_body(unchecked(path), 400, "a_kind", "no")) == said


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "error_type", "claudes"),
    [
        (401, "AuthenticationError", "a_kind"),
        (404, "NotFoundError", "a_kind"),
        (502, "InternalServerError", "api_error"),
    ],
)
async def test_official_clients_raise_the_right_error(status, error_type, claudes):
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
    assert from_anthropic.value.body == {"type": "error", "error": {"type": claudes, "message": "a text"}}
