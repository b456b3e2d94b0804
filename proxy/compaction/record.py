"""A record made without a model: what the user said, what was done and what came of it, and the names that occurred.

It stands where no model can be asked in time, and where none is wished to be. It invents nothing: every line of it is
copied, or cut with an honest number.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from proxy.compaction.constraints import word_for_word
from proxy.compaction.prompt import clipped, flattened
from proxy.compaction.span import words
from proxy.conversation.model import Message, ToolResult
from proxy.conversation.pairing import pairs

Names = Callable[[str, int, Collection[str]], Sequence[str]]
"""Identifiers of a text, for so many tokens, without the known ones (pruning.identifiers)."""

_ERROR = re.compile(
    r"\b(\w*error|\w*exception|failed|failure|fatal|panic|denied|not found|cannot|undefined|unexpected|mismatch)\b|\bE\d{3,}\b",
    re.IGNORECASE,
)
_LINE_CHARS = 160
_NAMES_SHARE = 0.35
_CHARS_PER_TOKEN = 3.5
_NEWEST_SHARE = 0.25


def deterministic(messages: Sequence[Message], earlier: str, names: Names, most_chars: int) -> str:
    """The record, at most about `most_chars` long. `earlier`: a record that stands in front of these messages."""
    room = int(most_chars * (1 - _NAMES_SHARE))
    answers = [words(message) for message in messages if message.role == "assistant" and words(message)]
    sections = [
        ("Earlier record", clipped(earlier, room // 3) if earlier else ""),
        ("The user said", _listed(word_for_word(messages, room // 4), room // 4)),
        ("Calls made, and what came of them", _listed(_calls(messages), room * 2 // 5)),
        ("Errors seen", _listed(_errors(messages), room // 6)),
        ("The assistant noted", _listed((_first_line(answer) for answer in answers[:-1]), room // 8)),
        ("The assistant's last words", clipped(answers[-1], min(1_500, room // 6)) if answers else ""),
    ]
    text = "\n\n".join(f"## {name}\n{body}" for name, body in sections if body)
    found = _names(messages, names, max(0, most_chars - len(text)), text)
    return f"{text}\n\n## Names that occurred\n{found}" if found else text


def _names(messages: Sequence[Message], names: Names, room_chars: int, text: str) -> str:
    """Half of the room is for what the newest quarter names: it is the likeliest to be needed."""
    tokens = int(room_chars / _CHARS_PER_TOKEN)
    cut = int(len(messages) * (1 - _NEWEST_SHARE))
    known = set(text.split())
    newest = names(flattened(messages[cut:]), tokens // 2, known)
    older = names(flattened(messages[:cut]), tokens - tokens // 2, known | set(newest)) if cut else ()
    return " ".join([*older, *newest])


def _calls(messages: Sequence[Message]) -> list[str]:
    """One line a call; of equal ones the last, with their number."""
    lines: dict[tuple[str, str], tuple[int, str]] = {}
    for pair in pairs(messages):
        call = pair.call
        if call is None:
            continue
        key = (call.name, call.arguments)
        number, _ = lines.pop(key, (0, ""))
        outcome = telling_line(pair.result)
        said = " ".join(call.arguments.split())
        line = f"{call.name} {clipped_line(said, _LINE_CHARS)}" + (f" → {outcome}" if outcome else "")
        lines[key] = (number + 1, line)
    return [line if number == 1 else f"{line} ({number} times)" for number, line in lines.values()]


def telling_line(result: ToolResult) -> str:
    """The line of a result that says most of how it went: its first error, else its last."""
    lines = [line.strip() for line in result.text.splitlines() if line.strip()]
    if not lines:
        return ""
    telling = next((line for line in lines if _ERROR.search(line)), lines[-1])
    return clipped_line(telling, _LINE_CHARS * 3 // 4)


def _errors(messages: Sequence[Message]) -> list[str]:
    found: dict[str, None] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult):
                for line in part.text.splitlines():
                    if _ERROR.search(line):
                        text = clipped_line(line.strip(), _LINE_CHARS * 3 // 2)
                        found.pop(text, None)
                        found[text] = None
    return list(found)


def _first_line(text: str) -> str:
    return clipped_line(text.strip().splitlines()[0], _LINE_CHARS * 3 // 2)


def clipped_line(text: str, most: int) -> str:
    """The beginning of one line."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _listed(lines: Iterable[str], most_chars: int) -> str:
    """The newest lines that fit, and the first one, with an honest number between them."""
    every = list(lines)
    if not every:
        return ""
    kept: list[str] = []
    used = len(every[0]) + 3
    for line in reversed(every[1:]):
        used += len(line) + 3
        if used > most_chars:
            break
        kept.append(line)
    left_out = len(every) - 1 - len(kept)
    middle = [f"… {left_out} more …"] if left_out else []
    return "\n".join(f"- {line}" for line in [every[0], *middle, *reversed(kept)])
