"""Old steps of a conversation in short, without a model: who said and called what, in order, and the names that occurred.

Unlike the record that stands for a whole conversation (compaction.record), this one stands for a few steps, beside others
like it. People's words stay as they are; of answers and calls the beginning stays, of results what went wrong; of
everything the names that later turns are likely to need.
"""

from collections.abc import Callable, Collection, Sequence

from proxy.compaction.prompt import clipped
from proxy.compaction.record import clipped_line, telling_line
from proxy.conversation.model import Media, Message, Text, ToolCall, ToolResult

KeptWhole = Callable[[str], bool]
"""Whether results of the tool of this name are people's answers, plans or decisions."""

_SAID_CHARS = 160
_CALL_CHARS = 100
_OUTCOME_CHARS = 120
_RESULT_CHARS = 1_500
_USER_CHARS = 2_000
_NEWEST_CHARS = 12_000
"""Of the newest message of a person: it is what is being worked on."""


def in_short(
    messages: Sequence[Message],
    *,
    newest: int,
    failed: Callable[[ToolResult], bool],
    whole: KeptWhole,
    said: Collection[tuple[int, str]] = (),
) -> str:
    """The steps, a line each, behind one line that says what they are.

    `newest`: index of the message that holds a person's newest words, if it is among these. `said`: messages that were
    queued, each with the index of the message it stands behind.
    """
    tools = {part.call_id: part.name for message in messages for part in message.parts if isinstance(part, ToolCall)}
    lines: list[str] = []
    for index, message in enumerate(messages):
        for part in message.parts:
            match part:
                case Text(text=text) if text.strip() and message.role == "user":
                    lines.append(f"User: {clipped(text.strip(), _NEWEST_CHARS if index == newest else _USER_CHARS)}")
                case Text(text=text) if text.strip():
                    lines.append(f"Assistant: {_line(text, _SAID_CHARS)}")
                case ToolCall():
                    lines.append(f"{part.name} {_line(part.arguments, _CALL_CHARS)}")
                case ToolResult() if whole(part.name or tools.get(part.call_id, "")):
                    lines.append(f"→ {clipped(part.text, _RESULT_CHARS)}")
                case ToolResult() if failed(part):
                    lines.append(f"→ {clipped_line(telling_line(part), _OUTCOME_CHARS)}")
                case Media():
                    lines.append(f"{message.role.capitalize()}: ({part.kind})")
                case _:
                    pass
        lines += [f"User: {text}" for after, text in said if after == index]
    note = f"[{len(messages)} older messages in short; tool outputs are left out, call a tool again to see one.]"
    return "\n".join([note, *lines])


def with_names(text: str, names: Sequence[str]) -> str:
    """The steps, and the names that their lines do not hold."""
    return f"{text}\nAlso mentioned: {' '.join(names)}" if names else text


def _line(text: str, most: int) -> str:
    return clipped_line(" ".join(text[: 4 * most].split()), most)
