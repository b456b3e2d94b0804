"""Responses: from the bytes of a request to a conversation.

`instructions` is the system text; `input` is one string or a list of items. Each item is one message and is parsed
once per process. A plain string is one user message that cannot be edited, since it is no element of a list.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from proxy.conversation.model import NO_TOOLS, Conversation, Message, Opaque, Tools
from proxy.conversation.recall import Recall
from proxy.dialects.base import View
from proxy.dialects.fields import mapping, name_of, parse_tools, small_values, whole
from proxy.dialects.history import History, alone, leading_system, read_history
from proxy.dialects.labels import NAMING, label_of
from proxy.dialects.openai_responses.items import TRIGGER, parse_item, parse_text
from proxy.dialects.utility import is_utility
from proxy.wire.body import NotPlain, Span, object_spans

NAME = "openai_responses"

_HELD = ("prompt", "previous_response_id", "conversation")
"""Keys that name something of a request which the provider keeps."""
_NOTHING = (b"", b"null")
_NOWHERE = (0, 0)
_READ = NAMING | {
    "model",
    "stream",
    "max_output_tokens",
    "previous_response_id",
    "conversation",
    "truncation",
    "context_management",
    "prompt",
}

_Head = tuple[dict[str, Any], list[Message], Tools]
"""The short values, the instructions and the tools."""


def view_body(headers: Mapping[str, str], body: bytes, recall: Recall) -> View | None:
    """The view of a request; None when the body is not one."""
    try:
        history = read_history(NAME, "input", body, recall, parse_item, _head) or _said(body, recall)
    except (NotPlain, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    if history is None:
        return None
    fields, messages, (small, system, tools) = history.fields, history.messages, history.head
    lead = leading_system(messages)
    conversation = Conversation(
        dialect=NAME,
        model=name_of(small.get("model")),
        system=(*system, *messages[:lead]),
        tools=tools,
        messages=tuple(messages[lead:]),
        stream=small.get("stream") is True,
        max_output=whole(small.get("max_output_tokens")),
        session_label=label_of(headers, small),
        server_history=_server_history(small),
        server_moves="conversation" in small and not small.get("previous_response_id"),
        server_edits=small.get("truncation") == "auto" or bool(small.get("context_management")),
        kept_prefix=bool(small.get("prompt")),
        utility=_is_trigger(messages) or is_utility(history.asked(), chain(system, messages), tools),
    )
    return View(
        body=body,
        conversation=conversation,
        spans=tuple(history.spans[lead:]),
        fields=fields,
        editable="input" in fields and body[fields["input"][0]] == ord("["),
        notes=history.notes.behind(lead),
    )


def _head(body: bytes, fields: Mapping[str, Span], recall: Recall) -> _Head:
    return small_values(body, fields, _READ), _instructions(body, fields, recall), _tools(body, fields, recall)


def _said(body: bytes, recall: Recall) -> History[_Head] | None:
    """A history of one message, its text alone; or of none, where all that is asked stands with the provider."""
    fields = object_spans(body)
    span = fields.get("input", _NOWHERE)
    if body[slice(*span)] in _NOTHING:
        held = any(body[slice(*fields.get(name, _NOWHERE))] not in _NOTHING for name in _HELD)
        return alone(fields, [], [], _head(body, fields, recall)) if held else None
    if body[span[0]] != ord('"'):
        return None
    return alone(fields, [span], _text("user", body, span, recall), _head(body, fields, recall))


def _instructions(body: bytes, fields: Mapping[str, Span], recall: Recall) -> list[Message]:
    return _text("system", body, fields["instructions"], recall) if "instructions" in fields else []


def _tools(body: bytes, fields: Mapping[str, Span], recall: Recall) -> Tools:
    return recall.get("tools", body[slice(*fields["tools"])], parse_tools) if "tools" in fields else NO_TOOLS


def _text(role: str, body: bytes, span: Span, recall: Recall) -> list[Message]:
    raw = body[slice(*span)]
    return [] if raw == b"null" else [recall.get(f"{NAME} {role}", raw, lambda text: parse_text(role, text))]


def _server_history(small: Mapping[str, Any]) -> str:
    """The id under which the provider holds what came before; the two ways exclude each other."""
    conversation = small.get("conversation")
    held = small.get("previous_response_id") or mapping(conversation).get("id") or conversation
    return held if isinstance(held, str) else ""


def _is_trigger(messages: list[Message]) -> bool:
    """Whether the client asks the provider to compact: a last item of its own kind."""
    last = messages[-1].parts if messages else ()
    return any(isinstance(part, Opaque) and part.kind == TRIGGER for part in last)
