"""What a call's new edits replaced, gathered when the call is over: nothing of it stands in a call's way."""

from collections.abc import Sequence

from proxy.compaction.prompt import flattened
from proxy.conversation.edit import Edit, Insert, Replace, RestoreReasoning, StripReasoning, Summarise
from proxy.conversation.model import Message, Reasoning, ToolResult
from proxy.exchange.ready import Ready
from proxy.ledger.originals import MOST_BYTES, MOST_SESSION_BYTES, Original, an_original, original_id


def originals_of(ready: Ready) -> tuple[Original, ...]:
    """The texts as the client sent them, each within its bound and all within a conversation's."""
    if not ready.new_edits:
        return ()
    messages, index = ready.received.conversation.messages, ready.weighed.index
    found = {original_id(edit): text for edit in ready.new_edits if (text := _text(edit, messages, index))}
    most_bytes = min(MOST_BYTES, MOST_SESSION_BYTES // max(1, len(found)))
    return tuple(an_original(place, text, most_bytes) for place, text in found.items())


def _text(edit: Edit, messages: Sequence[Message], index: dict[bytes, int]) -> str:
    """Empty where nothing stood, or nothing that can be read."""
    match edit:
        case Replace():
            part = messages[index[edit.at]].parts[edit.part]
            return part.text if isinstance(part, ToolResult) else ""
        case Summarise():
            return flattened(messages[index[edit.first] : index[edit.last] + 1])
        case StripReasoning():
            parts = messages[index[edit.at]].parts
            return "\n\n".join(part.text for part in parts if isinstance(part, Reasoning) and part.text)
        case Insert() | RestoreReasoning():
            return ""
