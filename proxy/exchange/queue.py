"""Messages that people queued for a conversation: all that wait become one user message behind the request's last one.

Behind the last message is behind the tool results, where every format takes a user's text: chat and Responses after
their results, Messages and Gemini as a further user turn (consecutive ones are read as one, results first). An answer
that the client has begun (its last message is the assistant's) is not interrupted, nor is code that waits for results:
Messages refuses everything beside them. A system message at the end stays the end: behind it Messages takes an answer only.

The edit names the ids of what it says, so that a plan never takes the same message twice, whatever the queue says.
"""

from collections.abc import Sequence

from proxy.conversation.edit import Insert, Plan, edits_of
from proxy.conversation.model import Message, ToolResult
from proxy.exchange.ready import Draft
from proxy.ledger.records import Queued


def queued_edits(draft: Draft, queued: Sequence[Queued]) -> tuple[Insert, ...]:
    """The edit that says what waits; empty when nothing does, or when this is not the place."""
    known = said(draft.plan)
    waiting = [message for message in queued if message.id not in known]
    messages = draft.received.conversation.messages
    if not waiting or messages[-1].role == "assistant" or _runs_code(messages[-1]):
        return ()
    text = "\n\n".join(message.text for message in waiting)
    tokens = draft.scale.weigh_text(text) + draft.scale.overheads.message
    ids = tuple(message.id for message in waiting)
    follows = len(messages) > 1 and messages[-1].role == "system" and messages[-2].role != "assistant"
    return (Insert(after=draft.received.keys[-2 if follows else -1], text=text, tokens_after=tokens, ids=ids),)


def _runs_code(last: Message) -> bool:
    return any(isinstance(part, ToolResult) and part.to_code for part in last.parts)


def said(plan: Plan) -> frozenset[str]:
    """Ids of the queued messages that stand in a plan."""
    return frozenset(name for edit in edits_of(plan.edits, Insert) for name in edit.ids)
