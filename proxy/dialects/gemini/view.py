"""Gemini: from the bytes of a request to a conversation.

The model stands in the path, and so does whether the answer is streamed. A count may wrap the whole request in
`generateContentRequest`, and Google's Code Assist wraps every request in `request`; spans and fields are then those of
the inner object. Google also takes a single content without its list; then nothing is edited.

`cachedContent` names a prefix (system text, tools, contents) that Google keeps. It is no history in the sense of
`server_history`, for the client still sends every content behind it and all that we edit lies there. So it is measured as
a piece of system text that cannot be read: the first answer's usage tells its size.
"""

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

from proxy.conversation.fingerprint import digest
from proxy.conversation.model import NO_TOOLS, Conversation, Message, Opaque, Tools
from proxy.conversation.recall import Recall
from proxy.dialects.base import View
from proxy.dialects.fields import name_of, objects, small_values, whole
from proxy.dialects.gemini.contents import parse_content, parse_system
from proxy.dialects.gemini.spelling import either, spelled
from proxy.dialects.history import History, alone, read_history
from proxy.dialects.labels import NAMING, label_of
from proxy.dialects.utility import is_utility
from proxy.wire.body import NotPlain, Span, array_spans, dumps, loads, object_spans

NAME = "gemini"

_MODEL = re.compile(r"/(?:models|tunedModels|endpoints)/([^/:]+):[A-Za-z]+$")
_WRAPPERS = ("generateContentRequest", "request")
_READ = NAMING | {"model", "cachedContent", "cached_content"}
_READ_LIMITS = ("maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count")
_NOTHING: Mapping[str, Span] = {}

_Head = tuple[dict[str, Any], dict[str, Any], tuple[Message, ...], Tools]
"""The short values, those of `generationConfig`, system text and tools."""


def view_body(path: str, headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
    """The view of a request; None when the body is not one."""
    try:
        history = read_history(NAME, "contents", body, recall, parse_content, _head) or _inside(body, recall)
    except (NotPlain, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    if history is None:
        return None
    fields, messages = history.fields, tuple(history.messages)
    small, limits, system, tools = history.head
    conversation = Conversation(
        dialect=NAME,
        model=_model(path, small),
        system=system,
        tools=tools,
        messages=messages,
        stream=path.endswith(":streamGenerateContent"),
        max_output=whole(either(limits, "maxOutputTokens")),
        session_label=label_of(headers, small),
        kept_prefix=bool(either(small, "cachedContent")),
        utility=is_utility(history.asked(), chain(system, messages), tools),
    )
    return View(
        body=body,
        conversation=conversation,
        spans=tuple(history.spans),
        fields=fields,
        choices=whole(either(limits, "candidateCount")) or 1,
        editable=body[fields["contents"][0]] == ord("["),
        notes=history.notes,
    )


def _head(body: bytes, fields: Mapping[str, Span], recall: Recall, around: Mapping[str, Span] = _NOTHING) -> _Head:
    """`around`: the fields of the object that wraps the request."""
    small = small_values(body, {**around, **fields} if around else fields, _READ)
    return small, _limits(body, fields), _system(body, fields, small, recall), _tools(body, fields, recall)


def _inside(body: bytes, recall: Recall) -> History[_Head] | None:
    """The history of a wrapped request, or one that is a single object."""
    around = object_spans(body)
    wrapper = "" if "contents" in around else next(filter(None, (spelled(around, name) for name in _WRAPPERS)), "")
    inner = around.pop(wrapper) if wrapper else (0, len(body))
    fields = object_spans(body, *inner)
    start, end = fields["contents"]
    if body[start] not in b"[{":
        return None
    spans = array_spans(body, start, end) if body[start] == ord("[") else [(start, end)]
    messages = [recall.get(NAME, body[start:end], parse_content) for start, end in spans]
    return alone(fields, spans, messages, _head(body, fields, recall, around))


def _model(path: str, small: Mapping[str, Any]) -> str:
    named = _MODEL.search(path)
    return named[1] if named else name_of(small.get("model")).removeprefix("models/")


def _limits(body: bytes, fields: Mapping[str, Span]) -> dict[str, Any]:
    """The short values of `generationConfig`; an output schema in it may be long."""
    name = spelled(fields, "generationConfig")
    if not name or body[slice(*fields[name])] == b"null":
        return {}
    return small_values(body, object_spans(body, *fields[name]), _READ_LIMITS)


def _system(body: bytes, fields: Mapping[str, Span], small: Mapping[str, Any], recall: Recall) -> tuple[Message, ...]:
    found = []
    cached = either(small, "cachedContent")
    if cached:
        part = Opaque(kind="cachedContent", size_chars=len(str(cached)))
        found.append(Message(role="system", parts=(part,), digest=digest(cached)))
    name = spelled(fields, "systemInstruction")
    raw = body[slice(*fields[name])] if name else b"null"
    if raw != b"null":
        found.append(recall.get(f"{NAME} system", raw, parse_system))
    return tuple(found)


def _tools(body: bytes, fields: Mapping[str, Span], recall: Recall) -> Tools:
    return recall.get(f"{NAME} tools", body[slice(*fields["tools"])], parse_tools) if "tools" in fields else NO_TOOLS


def parse_tools(raw: bytes) -> Tools:
    """`tools`: groups of function declarations, and Google's own tools, which go by their key."""
    groups = loads(raw)
    names: list[str] = []
    for group in [groups] if isinstance(groups, dict) else objects(groups):
        key = spelled(group, "functionDeclarations")
        names += [name_of(declared.get("name")) for declared in objects(group.get(key))]
        names += [own for own in group if own != key]
    return Tools(digest=digest(groups), text=dumps(groups).decode(), names=tuple(names)) if names else NO_TOOLS
