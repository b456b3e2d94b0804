import json

import pytest

from proxy.dialects.gemini.summary import continued, fresh, target

CONTENTS = [{"role": "user", "parts": [{"text": "go"}]}]


@pytest.mark.parametrize(
    ("path", "model", "goes_to"),
    [
        ("/v1beta/models/g:streamGenerateContent", "", "/v1beta/models/g:generateContent"),
        ("/v1beta/models/g:streamGenerateContent", "small", "/v1beta/models/small:generateContent"),
        (
            "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            "small",
            "/v1/projects/p/locations/l/publishers/google/models/small:generateContent",
        ),
        (
            "/v1/projects/p/locations/l/endpoints/12:streamGenerateContent",
            "small",
            "/v1/projects/p/locations/l/endpoints/12:generateContent",
        ),
        ("/v1internal:streamGenerateContent", "small", "/v1internal:generateContent"),
    ],
)
def test_a_summary_call_is_never_a_stream(path, model, goes_to):
    assert target(path, model) == goes_to


def test_a_fresh_call_asks_one_thing():
    assert json.loads(fresh("be brief", "what was?", 50)) == {
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "contents": [{"role": "user", "parts": [{"text": "what was?"}]}],
        "generationConfig": {"maxOutputTokens": 50},
    }


@pytest.mark.parametrize(
    ("config", "made"),
    [
        ({}, {"generationConfig": {"maxOutputTokens": 50}}),
        ({"generationConfig": None}, {"generationConfig": {"maxOutputTokens": 50}}),
        (
            {
                "generationConfig": {
                    "temperature": 0,
                    "maxOutputTokens": 9,
                    "responseSchema": {},
                    "stopSequences": ["x"],
                }
            },
            {"generationConfig": {"temperature": 0, "maxOutputTokens": 50}},
        ),
        (
            {"generation_config": {"max_output_tokens": 9, "candidate_count": 2}},
            {"generation_config": {"max_output_tokens": 50}},
        ),
    ],
)
def test_a_continued_call_asks_for_plain_text(config, made):
    body = json.dumps({"contents": CONTENTS, **config}).encode()

    assert json.loads(continued(body, 50)) == {"contents": CONTENTS, **made}


def test_a_continued_call_keeps_its_tools_and_forbids_their_use():
    tools = [{"functionDeclarations": [{"name": "f"}]}]
    body = json.dumps({"tools": tools, "tool_config": {"functionCallingConfig": {"mode": "ANY"}}, "contents": CONTENTS})
    made = json.loads(continued(body.encode(), 50))

    assert made["tools"] == tools
    assert made["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert "tool_config" not in made


def test_a_wrapped_request_stays_wrapped():
    body = json.dumps({"model": "g", "request": {"contents": CONTENTS}}).encode()

    assert json.loads(continued(body, 50)) == {
        "model": "g",
        "request": {"contents": CONTENTS, "generationConfig": {"maxOutputTokens": 50}},
    }
