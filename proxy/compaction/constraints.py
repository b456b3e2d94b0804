"""What must not be put into other words: of what a person said short messages whole and rules out of longer ones, and instructions.

A model that writes summaries of its own summaries keeps rules for two or three rounds and then loses them. A client
sends its whole history every time, so the user's own words are taken from there anew at each compaction and stand
beside the summary: no round can wear them down.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from proxy.compaction.span import words
from proxy.conversation.model import Message, Text

_SHORT_CHARS = 280
_RULE = re.compile(
    r"\b(must|never|always|only|don'?t|do not|not|no|should|shall|avoid|without|prefer|require[sd]?|ensure|make sure|"
    r"at (?:most|least)|keep|limit|instead|until|before|unless|exactly|please|"
    r"muss|nie|niemals|immer|nur|nicht|kein\w*|bitte|jamais|toujours|seulement|nunca|siempre|solo|debe)\b|"
    r"必须|不要|不得|禁止|务必|只能|始终|なければ|しないで|必ず",
    re.IGNORECASE,
)
# A digit, a path or symbol, a name in capitals, a proper name inside a sentence, a label in front, something quoted.
_PRECISE = re.compile(r"\d|\w[/_.]\w|\b[A-Z]{3,}\b|[a-z,] [A-Z][a-z]|^[^.!?]{1,40}: |[\"'`“][^\"'`”]{2,}[\"'`”]")
_DIGITS = re.compile(r"\d+")
_SENTENCE = re.compile(r"[^\n.!?。！？]+(?:[.!?](?!\s|$)[^\n.!?。！？]*)*[.!?。！？]?")
_OPENS = re.compile(r"<([A-Za-z][\w-]*)")
_CLOSES = re.compile(r"</([A-Za-z][\w-]*)>")


def word_for_word(messages: Sequence[Message], most_chars: int) -> tuple[str, ...]:
    """The user's words that a summary must not lose, in their order, at most `most_chars` of them.

    Rules go first, then what holds names, numbers or labels, then the rest; newer words before older ones, which they
    may have replaced. Of statements that differ in nothing but numbers the last one counts.
    """
    latest: dict[str, str] = {}
    for statement in _statements(messages):
        kind = _DIGITS.sub("#", statement).casefold()
        latest.pop(kind, None)
        latest[kind] = statement
    said = list(latest.values())
    chosen: set[str] = set()
    left = most_chars
    newest_first = said[::-1]
    newest_first.sort(key=_rank)
    for statement in newest_first:
        if len(statement) <= left:
            chosen.add(statement)
            left -= len(statement) + 3
    return tuple(statement for statement in said if statement in chosen)


def _rank(statement: str) -> int:
    if _RULE.search(statement):
        return 0
    return 1 if _PRECISE.search(statement) else 2


def instructions(messages: Sequence[Message], most_chars: int) -> str:
    """System messages inside the history, each whole and once, in their order; the newest where there is no room for all.

    There, and not in the system text, Claude Code says most of what it has to say to newer models.
    """
    kept: list[str] = []
    left = most_chars
    for message in reversed(messages):
        text = words(message) if message.role == "system" else ""
        if text and text not in kept and len(text) <= left:
            kept.append(text)
            left -= len(text)
    return "\n\n".join(reversed(kept))


def missing_in(text: str, statements: Sequence[str]) -> tuple[str, ...]:
    """The statements that the text does not hold word for word; white space and letter case do not count."""
    folded = _folded(text)
    return tuple(statement for statement in statements if _folded(statement) not in folded)


def _statements(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message.role != "user":
            continue
        for part in message.parts:
            if isinstance(part, Text):
                text = _untagged(part.text).strip()
                if len(text) <= _SHORT_CHARS:
                    yield from [" ".join(text.split())] if text else []
                else:
                    yield from (sentence for sentence in _sentences(text) if _RULE.search(sentence))


def _untagged(text: str) -> str:
    """Without what no person wrote: clients wrap reminders, environment and file contents in tags.

    Each tag goes with all up to the next one that closes it. In one pass: people paste whole pages, in which many tags
    are never closed.
    """
    closing: dict[str, list[int]] = defaultdict(list)
    for closes in _CLOSES.finditer(text):
        closing[closes[1]].append(closes.start())
    kept = []
    done = behind = 0
    for opens in _OPENS.finditer(text):
        if opens.start() < done:
            continue
        if behind < opens.end():
            behind = text.find(">", opens.end())
        if behind < 0:
            break
        places = closing.get(opens[1], ())
        number = bisect_left(places, behind)
        if number < len(places):
            kept.append(text[done : opens.start()])
            done = places[number] + len(f"</{opens[1]}>")
    return "".join([*kept, text[done:]])


def _sentences(text: str) -> Iterator[str]:
    for found in _SENTENCE.findall(text):
        sentence = " ".join(found.split()).lstrip("-*• ")
        if 8 <= len(sentence) <= _SHORT_CHARS:
            yield sentence


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
