"""Servers whose chat template wants the roles of a history to alternate: what of a plan can stand there.

A summary is one user message. It keeps the order where nothing stands in front of it and the model speaks behind it.
"""

from collections.abc import Mapping, Sequence

from proxy.conversation.edit import Edit, Summarise
from proxy.conversation.model import Message


def unbroken(edits: Sequence[Edit], messages: Sequence[Message], index: Mapping[bytes, int]) -> tuple[Edit, ...]:
    """The edits without the summaries that put two user messages side by side. All have their messages in `index`."""
    return tuple([edit for edit in edits if not (isinstance(edit, Summarise) and _breaks(edit, messages, index))])


def _breaks(summary: Summarise, messages: Sequence[Message], index: Mapping[bytes, int]) -> bool:
    behind = index[summary.last] + 1
    return index[summary.first] > 0 or (behind < len(messages) and messages[behind].role != "assistant")
