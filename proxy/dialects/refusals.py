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


_RATE = re.compile(
    r"rate.?limit|too many requests|throttl|tokens per (sec|min|hour|day|week|month)|\bTPM\b", re.IGNORECASE
)
_FALSE_FRIENDS = re.compile(
    r"string_above_max_length|string too long|max_(completion_|output_)?tokens is too large|max_tokens: \d+ >|"
    # Of pictures, not of the tokens that they and the text come to (Volcano Ark).
    r"(?<!tokens of )\bimages?\b[^.]{0,40}(exceeds?|too large|dimensions|limit)",
    re.IGNORECASE,
)
_OVERFLOW = _any_of(
    r"context[_ ]length[_ ]exceeded",
    r"exceed_context_size",
    r"model_max_prompt_tokens_exceeded",
    r"prompt (is )?too long",
    r"input is too long for requested model",
    r"exceeds? (the )?(model'?s )?context window",
    r"exceed context limit",
    r"context[ _]?window[ _]?exceed",
    r"exceeded this model context window",
    r"exceed max message tokens",
    r"maximum context (length|limit)( is|\W)",
    r"model'?s context length",
    r"exceeds (the )?(model'?s )?maximum context length",
    r"context length (is|of) only \d+",
    r"input token count.{0,80}exceeds the maximum",
    r"input token count is \d+ but model only supports",
    r"input tokens? exceed",
    r"number of input tokens exceeds",
    r"number of input tokens \(\d+\) has exceeded max_prompt_tokens",
    r"tokens in request more than max tokens allowed",
    r"maximum allowed input length",
    r"maximum input length is",
    r"maximum prompt length is \d+",
    r"reduce the length of the (messages|input|either)",
    # Of tools, files or stop words there are limits, too.
    r"token count of \d+ exceeds the limit of \d+",
    r"(available|exceeds) context size",
    r"configured context size is \d",
    r"context size has been exceeded",
    r"reached context length of \d+",
    r"cannot truncate prompt",
    r"greater than the context length",
    r"longer than the (maximum model|model'?s context) length",
    r"exceeded model token limit",
    r"too large for model with \d+",
    r"too_many_(prompt_)?tokens",
    r"too many tokens: size limit",
    r"too many input tokens",
    r"tokens in the prompt cannot exceed \d+",
    r"prompt exceeds max length",
    r"total length of all messages is too long",
    r"current length is \d+ while limit is",
    r"must be <= \d+.{0,200}max_new_tokens|max_new_tokens.{0,80}must be <=",
    r"inputs.? must have less than \d+ tokens",
    r"prompt_tokens \(\d+\) must be less than",
    r"exceeds? the max_model_len|should not exceed max_num_tokens",
    # vLLM counts what the prompt leaves of the window.
    r"max_(completion_)?tokens must be at least 1, got -\d",
    r"range of input length should be",
    r"input length.{0,120}exceeds.{0,120}(context|maximum)",
    r"token limit (reached|exceeded)",
    r"tokens_limit_reached",
    r"input tokens \d+ cannot exceed the total tokens limit",
    r"prompt length \(?\d+\)? exceeds maximum input length",
    # Z.ai's number for it, and what it and other houses say in Chinese: too long a prompt, too long an input, too much context.
    r"\"code\":1261\b",
    r"prompt ?超长|长度超限|上下文长度超过",
)
# Where the text names the window itself; the first group is the number. A rounded one ("128k") is none.
_WINDOW = re.compile(
    r"(?:maximum context length(?: is| of|:)?|maximum prompt length is|maximum model length of|context length \(|"
    r"context length (?:is|of) only|reached context length of|context size \(|context window limit \(|"
    r"maximum number of tokens allowed \(?|model only supports up to|tokens > |exceed context limit: [\d +]+> |"
    r"while limit is|max_model_len|max_seq_len \(|max_num_tokens \(|max input tokens:|prompt cannot exceed|max_prompt_tokens \(|configured context size is|"
    r"model token limit:|token count of \d{1,12} exceeds the limit of|for model with|"
    r"maximum allowed input length of|exceeds maximum input length \(?|total tokens limit|max size:(?= \d+ tokens)|maximum allowed length \(|configured limit of|should be \[1, ?|\"n_ctx\":|n_ctx:? \(?|"
    r"inputs.? must have less than|inputs` tokens \+ `max_new_tokens` must be <=)"
    r"\s*(\d{1,3}(?:,\d{3})+|\d{3,8})(?!,?\d|\s?k\b)",
    re.IGNORECASE,
)
# The input alone, without what was wanted of the answer; the first group that matched is the number.
_COUNTED = _any_of(
    r"messages resulted in (\d[\d,]*) tokens",
    r"prompt is too long: (\d+)",
    r"exceed context limit: (\d+) \+",
    r"input token count \((\d+)\)",
    r"\((\d+) (?:in the messages|in your prompt)",
    r"requested (\d+) tokens in the messages",
    r"(\d+) tokens from the input messages",
    r"(?:request has|you passed) (\d+) input tokens",
    r"request contains (\d+) tokens",
    r"request \((\d+) tokens\)",
    r"prompt contains (?:at least )?(\d+)(?: input)? tokens",
    r"current length is (\d+)",
    r"the input \((\d+) tokens\)",
    r"input length \(?(\d+)",
    r"prompt \(length (\d+)\)",
    r"prompt length \((\d+)\)",
    r"number of input tokens \(?(\d+)",
    r"prompt has (\d[\d,]*) tokens",
    r"engine prompt length (\d+)",
    r"prompt_tokens \((\d+)\)",
    r"\"n_prompt_tokens\":(\d+)",
    r"n_keep:? \(?(\d+)",
    r"prompt token count of (\d+)",
    r"input token count: (\d+)",
    r"token limit: \d+ \(requested: (\d+)\)",
    r"cannot exceed \d+ - received (\d+)",
    r"given: (\d+)",
)
# OpenRouter's list of what the input comes to: text, tools, pictures.
_KIND_COUNTED = re.compile(r"(\d{1,12}) of \w+ input", re.IGNORECASE)
_OVER = _any_of(
    r"exceeded(?: max context length)? by (\d+) tokens", r"max_(?:completion_)?tokens must be at least 1, got -(\d+)"
)
# Of bytes, which says nothing of the window; a smaller body may pass all the same.
_BYTES = re.compile(
    r"request_too_large|request exceeds the maximum size|request (payload )?size exceeds the limit|"
    r"request body too large|max bytes to request body|total message size \d+ exceeds limit",
    re.IGNORECASE,
)
# A chat template's own rule (Gemma, Mistral and others under llama.cpp, vLLM and LM Studio), which a summary behind the
# user's first words breaks; llama.cpp calls it an error of the server's.
_ROLES = _any_of(
    r"roles must alternate",
    r"must alternate between user and",
    r"alternate with assistant message",
    r"alternate between user and model",
    r"unexpected role 'user' after role",
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
_TOO_LARGE = 413
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
    if _RATE.search(text) or _FALSE_FRIENDS.search(text):
        return None
    if not re.search(_OVERFLOW, text):
        # 413 is about bytes whoever says it, as load balancers do in a page of HTML (RFC 9110 section 15.5.14).
        return Refusal(kind="overflow", of_bytes=True) if status == _TOO_LARGE or _BYTES.search(text) else None
    counted = sum(map(int, _KIND_COUNTED.findall(text))) or _number(_COUNTED, text)
    return Refusal(kind="overflow", window=_number(_WINDOW, text), counted=counted, over=_number(_OVER, text))


def _number(pattern: str | re.Pattern[str], text: str) -> int | None:
    found = re.search(pattern, text)
    digits = next(group for group in found.groups() if group).replace(",", "") if found else ""
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
