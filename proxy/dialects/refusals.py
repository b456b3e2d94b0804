"""What a provider's error text means, over all providers: overflow, an option it does not know, reasoning it refuses.

The patterns are the union of what providers were recorded to answer and what pi `overflow.ts`, opencode `error.ts` and
LiteLLM's exception mapping know. Rate limits speak of tokens too, so they are excluded first.
"""

import re

from proxy.dialects.base import Refusal
from proxy.wire.body import loads


def _any_of(*patterns: str) -> str:
    """Regardless of case, over line ends. `re` compiles it at the first error and keeps it: a fiftieth of every start."""
    return f"(?is:{'|'.join(patterns)})"


_RATE = re.compile(r"rate.?limit|too many requests|throttl|tokens per (minute|day)|\bTPM\b", re.IGNORECASE)
_FALSE_FRIENDS = re.compile(
    r"string_above_max_length|string too long|max_(completion_|output_)?tokens is too large|max_tokens: \d+ >|"
    r"\bimages?\b[^.]{0,40}(exceeds?|too large|dimensions|limit)",
    re.IGNORECASE,
)
_OVERFLOW = _any_of(
    r"context[_ ]length[_ ]exceeded",
    r"model_context_window_exceeded",
    r"exceed_context_size",
    r"request_too_large",
    r"model_max_prompt_tokens_exceeded",
    r"prompt is too long",
    r"prompt too long; exceeded",
    r"input is too long for requested model",
    r"exceeds? the (model'?s )?context window",
    r"exceed context limit",
    r"context window exceeds limit",
    r"maximum context (length|limit)( is|\W)",
    r"model'?s context length",
    r"exceeds (the )?(model'?s )?maximum context length",
    r"context length (is|of) only \d+",
    r"input token count.{0,80}exceeds the maximum",
    r"input token count is \d+ but model only supports",
    r"input tokens? exceed",
    r"number of input tokens exceeds",
    r"maximum allowed input length",
    r"maximum input length is",
    r"maximum prompt length is \d+",
    r"reduce the length of the (messages|input|either)",
    r"exceeds the limit of \d+",
    r"available context size",
    r"greater than the context length",
    r"longer than the (maximum model|model'?s context) length",
    r"exceeded model token limit",
    r"too large for model with \d+",
    r"too_many_(prompt_)?tokens",
    r"too many tokens: size limit",
    r"prompt exceeds max length",
    r"total length of all messages is too long",
    r"current length is \d+ while limit is",
    r"must be <= \d+.{0,200}max_new_tokens|max_new_tokens.{0,80}must be",
    r"range of input length should be",
    r"input length.{0,120}exceeds.{0,120}(context|maximum)",
    r"token limit (reached|exceeded)",
    # Z.ai's number for it; its text may be Chinese.
    r"\"code\":1261\b",
)
# Where the text names the window itself; the first group is the number.
_WINDOW = re.compile(
    r"(?:maximum context length(?: is|:)?|maximum prompt length is|maximum model length of|context length \(|"
    r"maximum number of tokens allowed \(|model only supports up to|tokens > |exceed context limit: [\d +]+> |"
    r"while limit is|"
    r"model token limit:|exceeds the limit of|loaded with context length of only|for model with|"
    r"maximum allowed input length of|configured limit of|should be \[1, ?|\"n_ctx\":|inputs` tokens \+ `max_new_tokens` must be <=)"
    r"\s*(\d{3,8})",
    re.IGNORECASE,
)
# The input alone, without what was wanted of the answer; the first group that matched is the number.
_COUNTED = _any_of(
    r"messages resulted in (\d+) tokens",
    r"prompt is too long: (\d+)",
    r"exceed context limit: (\d+) \+",
    r"input token count \((\d+)\)",
    r"\((\d+) (?:of text input|in the messages)",
    r"request contains (\d+) tokens",
    r"prompt contains (?:at least )?(\d+)(?: input)? tokens",
    r"current length is (\d+)",
    r"the input \((\d+) tokens\)",
    r"decoder prompt \(length (\d+)\)",
    r"\"n_prompt_tokens\":(\d+)",
    r"prompt token count of (\d+)",
    r"token limit: \d+ \(requested: (\d+)\)",
)
_OVER = _any_of(r"exceeded(?: max context length)? by (\d+) tokens")
# A chat template's own rule (Gemma, Mistral and others under llama.cpp, vLLM and LM Studio), which a summary behind the
# user's first words breaks; llama.cpp calls it an error of the server's.
_ROLES = _any_of(
    r"roles must alternate",
    r"must alternate between user and",
    r"alternate with assistant message",
    r"rendering prompt with jinja",
)
_USAGE_OPTION = re.compile(r"stream_options|include_usage", re.IGNORECASE)
# A provider's word about earlier reasoning → what is wrong with it. The first that matches counts.
_REASONING = {
    "missing": _any_of(
        r"reasoning_content.{0,60}(must be passed back|is missing)",
        r"missing .?reasoning_content",
        r"content\[\]\.thinking.{0,60}must be passed back",
        r"expected .?thinking.? or .?redacted_thinking.?, but found",
        r"missing a .?thought_signature",
        r"was provided without its required 'reasoning' item",
    ),
    "altered": _any_of(
        r"thinking.? or .?redacted_thinking.? blocks in the latest assistant message cannot be modified",
        r"invalid .?signature.? in .?thinking.? block",
        r"thinking\.signature: field required",
        r"(invalid|corrupted) thought signature",
        r"thought signature is not valid",
        r"of type 'reasoning' was provided without its required following item",
        r"encrypted content .{0,80}could not be verified",
        r"invalid_encrypted_content",
    ),
    # Groq and Cerebras name the property; no request parameter is called so, `reasoning` alone is one.
    "unwanted": _any_of(
        r"reasoning_(content|details).{0,80}(not (supported|allowed|permitted)|unsupported)",
        r"(not support|unsupported|unexpected|unknown).{0,80}reasoning_(content|details)",
        r"remove the reasoning_content",
        r"messages.{0,120}property '[^']*reasoning' is unsupported",
    ),
}
_MOST_TEXT = 8192
"""Of an error, in characters: some servers answer with all that they were sent, and every pattern is looked for on the loop."""
_MOST_STRING = 2048
"""Of one string in it: what a client has sent is longer, what a provider says of it is not."""
_MOST_DIGITS = 12
"""Of a count of tokens; longer numbers count something else."""


def refusal_of(status: int, body: bytes) -> Refusal | None:
    """What an error answer (status ≥ 400, or an error event inside a stream) means to us."""
    if status not in (200, 400, 413, 422, 500):
        return None
    if not body.strip() and status in (400, 413):
        return Refusal(kind="overflow")
    text = _text_of(body)
    wrong = next((name for name, pattern in _REASONING.items() if re.search(pattern, text)), "")
    if wrong:
        return Refusal(kind="reasoning", reasoning=wrong)
    if status in (400, 422) and _USAGE_OPTION.search(text):
        return Refusal(kind="usage_option")
    if status in (400, 422) and "cache_control" in text:
        return Refusal(kind="cache_option")
    if re.search(_ROLES, text):
        return Refusal(kind="roles")
    if _RATE.search(text) or _FALSE_FRIENDS.search(text) or not re.search(_OVERFLOW, text):
        return None
    return Refusal(
        kind="overflow", window=_number(_WINDOW, text), counted=_number(_COUNTED, text), over=_number(_OVER, text)
    )


def _number(pattern: str | re.Pattern[str], text: str) -> int | None:
    found = re.search(pattern, text)
    digits = next(group for group in found.groups() if group) if found else ""
    return int(digits) if 0 < len(digits) <= _MOST_DIGITS else None


def _text_of(body: bytes) -> str:
    """The error's own words: wrapped ones too (OpenRouter hides the upstream's in `error.metadata.raw`)."""
    try:
        parsed = loads(body)
    except (ValueError, RecursionError):
        return body[:_MOST_TEXT].decode("utf-8", "replace")
    return " ".join(_strings(parsed, 0))[:_MOST_TEXT]


def _strings(value: object, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value[:_MOST_STRING]]
    if isinstance(value, bool) or depth > 6:
        return []
    if isinstance(value, int | float):
        return [str(value)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item, depth + 1)]
    if isinstance(value, dict):
        found = []
        for key, item in value.items():
            is_number = isinstance(item, int) or (isinstance(item, str) and item.isdecimal())
            found += [f'"{key}":{item}'] if is_number else _strings(item, depth + 1)
        return found
    return []
