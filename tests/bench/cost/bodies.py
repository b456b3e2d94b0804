"""Request bodies in every wire format: a short call, histories of a given size, a chat that grows."""

import json
import random
from collections.abc import Iterator

_WORDS = [
    "def",
    "return",
    "self",
    "value",
    "index",
    "error",
    "path",
    "module",
    "test",
    "assert",
    "import",
    "class",
    "token",
    "context",
    "window",
    "cache",
    "prompt",
    "tool",
    "result",
    "message",
    "system",
    "user",
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "for",
    "with",
    "as",
    "that",
    "from",
    "this",
    "not",
    "on",
    "file",
    "line",
    "config",
    "handler",
    "async",
    "await",
    "stream",
    "chunk",
    "byte",
    "header",
    "request",
    "response",
    "upstream",
    "client",
    "server",
    "session",
    "anchor",
    "plan",
    "edit",
    "ledger",
]
PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
}
MODELS = {"openai_chat": "gpt-4.1", "openai_responses": "gpt-4.1", "anthropic_messages": "claude-sonnet-4-5"}


def text(size: int, seed: int) -> str:
    """About `size` characters that read like code and logs, the same for the same seed."""
    rng = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        line = "    " * rng.randrange(4) + " ".join(rng.choices(_WORDS, k=8)) + f" {rng.randrange(10**6)}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


_SYSTEM = text(1200, 1)
_QUESTION = text(560, 2)


def short(dialect: str, number: int, *, stream: bool = False) -> bytes:
    """A first call of about 2 KB that no earlier call is the beginning of."""
    question = f"{number:08d} {_QUESTION}"
    match dialect:
        case "anthropic_messages":
            body = {"max_tokens": 1000, "system": _SYSTEM, "messages": [{"role": "user", "content": question}]}
        case "openai_responses":
            body = {"instructions": _SYSTEM, "input": [{"role": "user", "content": question}]}
        case "gemini":
            contents = [{"role": "user", "parts": [{"text": question}]}]
            return _dumps({"systemInstruction": {"parts": [{"text": _SYSTEM}]}, "contents": contents})
        case _:
            messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": question}]
            body = {"messages": messages, "temperature": 0.2}
            if stream:
                body["stream_options"] = {"include_usage": True}
    if stream:
        body["stream"] = True
    return _dumps({"model": MODELS[dialect], **body})


def growing(turns: int, turn_bytes: int, *, coloured: int = 0, seed: int = 0) -> list[bytes]:
    """The bodies of one chat, turn by turn: each adds a call of a tool and its result of `turn_bytes`.

    The first `coloured` results carry terminal colours, so that each of them gets an edit when it arrives.
    """
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": f"{seed} {_QUESTION}"}]
    tools = [
        {"type": "function", "function": {"name": name, "description": text(300, 7), "parameters": {"type": "object"}}}
        for name in ("read", "search", "run", "edit")
    ]
    bodies = []
    for turn in range(turns):
        arguments = json.dumps({"path": f"src/module_{seed}_{turn}.py"})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read", "arguments": arguments}}
        result = text(turn_bytes - 300, seed * 1000 + turn)
        if turn < coloured:
            result = "".join(f"\x1b[32m{line}\x1b[0m\n" for line in result.split("\n"))
        messages.append({"role": "assistant", "content": "done", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": result})
        bodies.append(_dumps({"model": MODELS["openai_chat"], "messages": messages, "tools": tools}))
    return bodies


def known_history(size: int, calls: int) -> Iterator[bytes]:
    """Bodies of about `size` bytes: a history, then `calls` times the same with an answer and another question behind it.

    The model's window is unknown, so that nothing is ever decided: what is measured is the way through.
    """
    piece = min(4000, max(200, size // 8))
    messages = [{"role": "system", "content": _SYSTEM}]
    for number in range(max(1, (size - 1600) // (piece + 60))):
        role = "assistant" if number % 2 else "user"
        messages.append({"role": role, "content": text(piece, number % 400) + str(number)})
    yield _dumps({"model": "unknown-model", "messages": messages})
    head = _dumps({"model": "unknown-model", "messages": messages})[:-2]
    for number in range(calls):
        last = [{"role": "assistant", "content": "done"}, {"role": "user", "content": f"and {number}?"}]
        yield head + b"," + _dumps(last)[1:-1] + b"]}"


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
