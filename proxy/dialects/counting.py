"""Asking a provider how many tokens a request has: where, with what of its body, and where the answer says it.

Sources (2026-11): Anthropic "Count tokens in a Message", stable and beta; OpenAI "Get input token counts"; Gemini API
"models.countTokens", which takes a whole request that names its model; Vertex AI "countTokens", which takes some of its
keys as they are. Chat completions and Code Assist have no such endpoint; that of Claude on Vertex is not asked.
"""

import re
from dataclasses import dataclass
from typing import Final

from proxy.dialects.fields import mapping, parsed, whole
from proxy.wire.body import dumps, object_spans, with_keys, without_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """One count endpoint."""

    calls: re.Pattern[str]
    """Paths of the calls that it counts; the first group stays. A group `model` is named in a request that is wrapped."""
    ends: str
    """What follows that group in its own path."""
    accepts: frozenset[str] = frozenset()
    """Top-level keys of the call that it takes as well; others are refused. Of a wrapped request it takes all."""
    unseen: frozenset[str] = frozenset()
    """Keys that put something into the prompt and that it does not take: its count would be too low."""
    answer: str
    """Key of the number."""


_ENDPOINTS: Final[dict[str, tuple[_Endpoint, ...]]] = {
    "anthropic_messages": (
        _Endpoint(
            calls=re.compile(r"(.*/v1/messages)$"),
            ends="/count_tokens",
            accepts=frozenset(
                {
                    "cache_control", "messages", "model", "output_config", "speed", "system", "thinking", "tool_choice",
                    "tools",
                    # Behind beta headers, which are the call's own and go along.
                    "compaction", "context_management", "mcp_servers", "output_format",
                }
            ),
            # Skills stand in it.
            unseen=frozenset({"container"}),
            answer="input_tokens",
        ),
    ),
    "openai_responses": (
        _Endpoint(
            calls=re.compile(r"(.*/responses)$"),
            ends="/input_tokens",
            accepts=frozenset(
                {
                    "conversation", "input", "instructions", "model", "parallel_tool_calls", "personality",
                    "previous_response_id", "reasoning", "text", "tool_choice", "tools", "truncation",
                }
            ),
            # A template that the provider keeps.
            unseen=frozenset({"prompt"}),
            answer="input_tokens",
        ),
    ),
    "gemini": (
        _Endpoint(
            calls=re.compile(
                r"(.*/v\d\w*/(?P<model>(?:models|tunedModels)/[^/:]+):)(?:generateContent|streamGenerateContent)$"
            ),
            ends="countTokens",
            answer="totalTokens",
        ),
        _Endpoint(
            calls=re.compile(r"(.*/(?:models|endpoints)/[^/:]+:)(?:generateContent|streamGenerateContent)$"),
            ends="countTokens",
            accepts=frozenset(
                {"contents", "generationConfig", "generation_config", "systemInstruction", "system_instruction", "tools"}
            ),
            unseen=frozenset({"cachedContent", "cached_content"}),
            answer="totalTokens",
        ),
    ),
}  # fmt: skip


def count_request(dialect: str, path: str, body: bytes) -> tuple[str, bytes] | None:
    """Path and body of the request that has this call counted; None where the provider cannot, or not the whole of it.

    `body` is one that the dialect has read. Raises NotPlain for others.
    """
    for endpoint in _ENDPOINTS.get(dialect, ()):
        found = endpoint.calls.match(path)
        if found is None:
            continue
        target, spans = found[1] + endpoint.ends, object_spans(body)
        if not endpoint.unseen.isdisjoint(spans):
            return None
        if "model" in endpoint.calls.groupindex:
            return target, b'{"generateContentRequest":' + with_keys(body, {"model": dumps(found["model"])}) + b"}"
        return target, without_keys(body, spans.keys() - endpoint.accepts)
    return None


def count_answer(dialect: str, answer: bytes) -> int | None:
    """The number in the answer; None where there is none above 0."""
    return whole(mapping(parsed(answer)).get(_ENDPOINTS[dialect][0].answer))
