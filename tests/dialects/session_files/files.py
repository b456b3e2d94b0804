"""Session files as clients write them, read as `replay` reads them."""

import json

from proxy.conversation.model import ToolCall, ToolResult
from proxy.exchange.transcripts import conversations


def of(*entries):
    """The conversations in a file of these lines."""
    return conversations(b"\n".join(json.dumps(entry).encode() for entry in entries))


def roles(conversation):
    return [message.role for message in conversation.messages]


def told(conversation):
    """Roles, and of calls and results what they are."""
    parts = [part for message in conversation.messages for part in message.parts]
    return (
        roles(conversation),
        [part.name for part in parts if isinstance(part, ToolCall)],
        [part.text for part in parts if isinstance(part, ToolResult)],
    )
