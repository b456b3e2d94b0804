"""A summary written without a model: what the loopback provider answers where a summary is asked for.

It copies sentences and names out of the history it is given, so the same request gives the same summary, and what it
keeps and loses can be checked.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from proxy.compaction.prompt import INSTRUCTION
from proxy.demo.provider.asked import Answer, Asked
from proxy.pruning.identifiers import identifiers

_CHARS = 5_000
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_RULE = re.compile(r"\b(must|never|always|only|do not|don't|prefer|keep|without)\b", re.IGNORECASE)


def asks_for_summary(asked: Asked) -> bool:
    """Whether the last message is the proxy's instruction, alone or behind a flattened history."""
    return asked.last_is_user and INSTRUCTION in asked.last_text


def summary(asked: Asked, headers: Mapping[str, str]) -> Answer:
    """The answer to a summary call."""
    del headers
    texts = [text for unit in asked.units for text in unit.texts if not text.startswith(("[{", "{"))]
    return Answer(text=extracted([*texts[:-1], texts[-1].partition(INSTRUCTION)[0]], _CHARS))


def extracted(texts: Sequence[str], chars: int) -> str:
    """A record of at most about `chars` characters with some of the headings that are asked for."""
    said = [text.strip() for text in texts if text.strip()]
    rules = _within(
        dict.fromkeys(
            sentence.strip() for text in said for sentence in _SENTENCE.findall(text) if _RULE.search(sentence)
        ),
        chars // 4,
    )
    names = identifiers("\n".join(said), lambda word: (len(word) + 3) // 4, chars // 12)
    newest = _within((" ".join(text.split())[:200] for text in reversed(said)), chars // 4)
    sections = (
        ("Goal", said[0][:300] if said else ""),
        ("Constraints and instructions", "\n".join(f"- {rule}" for rule in rules)),
        ("Exact errors, commands, identifiers", " ".join(names)),
        ("Facts found", "\n".join(f"- {text}" for text in reversed(newest))),
    )
    return "\n\n".join(f"## {name}\n{body}" for name, body in sections if body)


def _within(lines: Iterable[str], chars: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        chars -= len(line)
        if chars < 0:
            break
        kept.append(line)
    return kept
