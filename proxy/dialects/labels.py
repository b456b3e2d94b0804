"""What clients call their sessions: headers and fields, in a published order. A label names, it never identifies.

Order after router-for-me/CLIProxyAPI#4554; names by client in coder/coder `aibridge/session.go`, openai/codex
`headers.rs`, opencode and its forks. Underscored and dashed header names are both read, since some front proxies drop
underscores.
"""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from proxy.wire.body import loads

# Ours comes first: a user may always name a session.
LABEL_HEADERS = (
    "x-context-session",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "thread-id",
    "x-session-id",
    "x-opencode-session",
    "x-session-affinity",
    "conversation_id",
    "x-client-session-id",
    "x-amp-thread-id",
    "x-kilocode-taskid",
    "x-task-id",
    "x-openwebui-chat-id",
    "x-litellm-session-id",
    "x-grok-conv-id",
    "x-mux-workspace-id",
    "x-coder-chat-id",
    "x-affinity",
    "vscode-sessionid",
)
_FIELDS = ("session_id", "sessionId", "prompt_cache_key")
NAMING = frozenset((*_FIELDS, "metadata", "conversation"))
"""All fields that are looked at."""
_MOST_CHARS = 512
_PRINTABLE = re.compile(rf"[\x21-\x7e]{{1,{_MOST_CHARS}}}")


def label_of(headers: Mapping[str, str], fields: Mapping[str, Any]) -> str:
    """The session's name as the client gives it; empty when it gives none or one with odd characters. A user's own may be words.

    `headers` has lower-case names, and need have no others than `LABEL_HEADERS`; `fields` are the request's small top-level values.
    """
    if not headers and NAMING.isdisjoint(fields):
        return ""
    if own := _words(headers.get(LABEL_HEADERS[0], "")):
        return own
    candidates: list[object] = [headers[name] for name in LABEL_HEADERS if name in headers]
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        candidates += [_claude_code(metadata.get("user_id")), metadata.get("session_id"), metadata.get("sessionId")]
    candidates += [fields[name] for name in _FIELDS if name in fields]
    conversation = fields.get("conversation")
    candidates.append(conversation.get("id") if isinstance(conversation, dict) else conversation)
    for candidate in candidates:
        if isinstance(candidate, str) and _PRINTABLE.fullmatch(candidate):
            return candidate
    return ""


def _words(name: str) -> str:
    """What a user calls a session, in any script; empty when it is too long or holds what cannot be shown."""
    if not name.isascii():
        # A header's bytes come as Latin-1, whatever they are; nearly always they are UTF-8.
        with contextlib.suppress(UnicodeError):
            name = name.encode("latin-1").decode()
    name = name.strip()
    # Composed emoji hold joiners, which Python does not call printable.
    return name if len(name) <= _MOST_CHARS and name.replace("\u200d", "").isprintable() else ""


def _claude_code(user_id: object) -> str | None:
    """The session in Claude Code's `metadata.user_id`: a JSON string, or `user_…_session_UUID` before."""
    if not isinstance(user_id, str):
        return None
    if user_id.startswith("{"):
        try:
            found = loads(user_id.encode()).get("session_id")
        except (ValueError, AttributeError, RecursionError):
            return None
        return found if isinstance(found, str) else None
    _, mark, session = user_id.rpartition("_session_")
    return session if mark else None
