"""Hostile input: recorded requests and answers, and the ways in which hypothesis makes something else of them."""

import json
from copy import deepcopy
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from proxy.demo.sessions import load
from tests.bench.speakers import SPEAKERS
from tests.dialects.recordings import recordings

SESSIONS = Path(__file__).parents[1] / "data" / "trajectories"
PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic_messages": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
}
SPOKEN = dict(zip(SPEAKERS, ("openai_chat", "openai_responses", "anthropic_messages", "gemini"), strict=True))
MOST_BYTES = 24 * 1024
MESSAGES = 14
SHIFTS = tuple(7919 * number for number in range(10))
"""What is drawn is used at so many places: drawing takes hypothesis longer than anything that is tested here."""

# What readers stumble over: types that are not expected, numbers that do not fit, text that is no text, depth.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1e308, 2**63, 2**64, -(2**70), 10**400, 0.1, float("nan"), float("inf")),
    *("", " ", "\x00", "\ud800", "é" * 300, "\u2028", "x" * 5000, "<|endoftext|>", "data: [DONE]\n\n", '{"a":1}'),
    *([], {}, [[]], [None], {"": ""}, [{}], {"type": None}, {"type": "text"}, {"role": []}, {"content": {}}),
    *("user", "assistant", "tool", "system", "tool_result", "function_call_output", "model", "thinking"),
    [{"type": "text", "text": 1}],
    [{"type": "tool_result", "tool_use_id": None, "content": [{"type": "image"}]}],
)
FRAGMENTS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"\x00",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n",
    ),
    *(
        b"\r\n\r\n",
        b"\n\n",
        b"data: ",
        b"data:",
        b"event: error\n",
        b": comment\n\n",
        b"data: [DONE]\n\n",
        b"null",
        b"1e999",
    ),
    *(b'"role":"tool",', b'"messages":[],', b'"content":"x",', b'"usage":{"prompt_tokens":-5},', b'"usage":null,'),
    *(b'data: {"choices":[],"usage":{"prompt_tokens":99999999999999999999}}\n\n', b'data: {"type":"error"}\n\n'),
    *(b'"usage":{"input_tokens":"many"},', b"[" * 3000, b'{"a":' * 3000, b"\\ud83d", b"\\u0000", b"9" * 400),
)
NAMES = (
    *("content-type", "content-length", "transfer-encoding", "content-encoding", "connection", "upgrade", "host", "te"),
    *("expect", "authorization", "x-api-key", "x-goog-api-key", "x-proxy-key", "x-context-mode", "x-context-session"),
    *("anthropic-beta", "anthropic-version", "session_id", "user-agent", "x-forwarded-for", "x-upstream-url", "range"),
    *("accept-encoding", "accept", "cookie", "origin", "openai-organization", "x-claude-code-session-id", "trailer"),
)
VALUES = (
    *("", "0", "-1", "12", "99999999999", "+5", "0x10", "5, 5", "chunked", "identity, chunked", "gzip", "br", "zstd"),
    *(
        "gzip, gzip",
        "deflate",
        "websocket",
        "keep-alive, x-api-key",
        "close",
        "100-continue",
        "observe",
        "prune",
        "off",
    ),
    *("http://127.0.0.1:1/", "Bearer ", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOjF9.x", "\xff\xfe", "a\x01b", "x" * 4000),
    *("text/event-stream", "application/json; charset=utf-16", "null", "*", "bytes=0-1", "Bearer a.b.c", "{}"),
)


@cache
def requests() -> tuple[tuple[str, bytes], ...]:
    """Dialect and body of recorded requests, and of real agents' sessions in every format."""
    found = [
        (name, recording.request)
        for name in PATHS
        for recording in recordings(name)
        if recording.request and len(recording.request) <= MOST_BYTES
    ]
    for file in sorted(SESSIONS.glob("*.json.gz"), key=lambda path: path.stat().st_size)[:60:3]:
        session = load(file)
        for words, name in SPOKEN.items():
            body = json.dumps(SPEAKERS[words].body(list(session.tools), list(session.messages[:MESSAGES]))).encode()
            if len(body) <= MOST_BYTES:
                found.append((name, body))
    return tuple(found)


@cache
def answers() -> tuple[tuple[str, bool, bytes], ...]:
    """Dialect, whether it streams, and bytes of recorded answers."""
    return tuple(
        (name, recording.stream, recording.response)
        for name in PATHS
        for recording in recordings(name)
        if len(recording.response) <= MOST_BYTES
    )


places = st.integers(0, 2**20)
values = st.one_of(
    st.sampled_from(ODD),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(("type", "text", "role", "id", "")), inner)
        ),
        max_leaves=6,
    ),
)
turns = st.lists(
    st.tuples(st.sampled_from(("set", "drop", "double", "wrap", "rename", "swap")), places, places, values), max_size=4
)
cuts = st.lists(
    st.tuples(
        st.sampled_from(("insert", "overwrite", "remove", "truncate", "double")),
        places,
        st.integers(1, 64),
        st.one_of(st.sampled_from(FRAGMENTS), st.binary(min_size=1, max_size=8)),
    ),
    max_size=3,
)
styles = st.sampled_from(({"separators": (",", ":")}, {"indent": 1}, {}, {"ensure_ascii": False}))
headers = st.lists(
    st.tuples(
        st.one_of(st.sampled_from(NAMES), st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)),
        st.one_of(st.sampled_from(VALUES), st.text(st.characters(max_codepoint=255), max_size=20)),
    ),
    max_size=5,
)


@st.composite
def bodies(draw) -> tuple[str, list[bytes]]:
    """A dialect and requests that may be anything by now: the same changes, each time at other places."""
    dialect, body = draw(st.sampled_from(requests()))
    orders, style, changes = draw(turns), draw(styles), draw(cuts)
    made = []
    for shift in SHIFTS:
        changed = body
        if orders:
            value = json.loads(body)
            for kind, place, other, odd in orders:
                # A copy: the next change may be inside of it.
                _turned(value, kind, place + shift, other + shift, deepcopy(odd))
            changed = json.dumps(value, **style).encode("utf-8", "surrogatepass")
        made.append(mutated(changed, changes, shift))
    return dialect, made


@st.composite
def streams(draw) -> tuple[str, bool, list[list[bytes]]]:
    """A dialect, whether its reader expects a stream, and the pieces in which mutated answers arrive."""
    dialect, stream, body = draw(st.sampled_from(answers()))
    changes, ends = draw(cuts), draw(st.lists(places, max_size=6))
    made = []
    for shift in SHIFTS:
        changed = mutated(body, changes, shift)
        edges = [0, *sorted((end + shift) % (len(changed) + 1) for end in ends), len(changed)]
        made.append([changed[start:end] for start, end in pairwise(edges)])
    return dialect, stream ^ (draw(st.integers(0, 19)) == 0), made


def mutated(body: bytes, orders, shift: int = 0) -> bytes:
    """The bytes with these changes, each at a place of its own."""
    for kind, place, length, piece in orders:
        at = (place + shift) % (len(body) + 1)
        match kind:
            case "insert":
                body = body[:at] + piece + body[at:]
            case "overwrite":
                body = body[:at] + piece + body[at + len(piece) :]
            case "remove":
                body = body[:at] + body[at + length :]
            case "truncate":
                body = body[:at]
            case _:
                body = body[:at] + body[at : at + length] + body[at:]
    return body


def _turned(value: Any, kind: str, place: int, other: int, odd: Any) -> None:
    """One change of the JSON value, in place."""
    slots = list(_slots(value))
    if not slots:
        return
    (holder, key), (there, name) = slots[place % len(slots)], slots[other % len(slots)]
    match kind:
        case "set":
            holder[key] = odd
        case "drop":
            del holder[key]
        case "double" if isinstance(holder, list):
            holder.insert(key, holder[key])
        case "wrap":
            holder[key] = [holder[key]]
        case "rename" if isinstance(holder, dict):
            holder[odd if isinstance(odd, str) else "renamed"] = holder.pop(key)
        case "swap":
            # By value: a part inside of itself would be no JSON.
            holder[key] = json.loads(json.dumps(there[name]))


def _slots(value: Any):
    """Every place in a JSON value that holds something."""
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, inner in items:
        yield value, key
        yield from _slots(inner)
