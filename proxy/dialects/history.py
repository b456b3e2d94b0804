"""Reading the one long array of a body, the history, from where the last body of the same line ended."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from proxy.conversation.lines import Notes
from proxy.conversation.model import Message
from proxy.conversation.recall import Recall
from proxy.wire.body import NotPlain, Span, array_spans, object_spans

H = TypeVar("H")

_TAKES_OVER = 0.9
"""A body that has so much of an earlier one takes its place, also where they part: whoever goes on from there has to have
no more than the rest read again."""


class History(msgspec.Struct, Generic[H], frozen=True):
    """The fields of a body, and the elements of one of them."""

    fields: dict[str, Span]
    """Span of the value of each top-level key, in document order."""
    spans: list[Span]
    ends: list[int]
    """Where each element ends."""
    messages: list[Message]
    notes: Notes
    head: H
    """What was made of the other fields; the same object for a later body as long as they keep their bytes."""
    asked_at: int
    """Index of the last message of a user; -1 without one."""
    body: bytes = b""
    """That they stand in; held anyway, as the beginning of a line."""

    def asked(self) -> Message | None:
        """The last message of a user, if there is one."""
        return self.messages[self.asked_at] if self.asked_at >= 0 else None


def alone(fields: dict[str, Span], spans: list[Span], messages: list[Message], head: H) -> History[H]:
    """A history that goes on with no other."""
    return History(fields, spans, [end for _, end in spans], messages, Notes(), head, _asked_at(messages))


def read_history(
    kind: str,
    field: str,
    body: bytes,
    recall: Recall,
    parse: Callable[[bytes], Message],
    head_of: Callable[[bytes, dict[str, Span], Recall], H],
    amend: Callable[[list[Message], int], None] | None = None,
) -> History[H] | None:
    """The fields of the object and the parsed elements of `field`; None where that is no array. Raises NotPlain.

    `kind` says who parses. `head_of` gives what depends on nothing but the other fields. `amend` changes messages from an
    index on, in place, by what stands in front of them. Raises also what these raise.
    """
    found = recall.lines.find(kind, body)
    instead_of, grows = None, False
    if found is not None and isinstance(found[0], History):
        earlier, shared = found[0], found[1]
        grown = _grown(field, body, earlier, shared)
        fields, new = grown or _continued(field, body, earlier, shared)
        head = earlier.head if grown is not None else head_of(body, fields, recall)
        spans, ends = earlier.spans[:shared], earlier.ends[:shared]
        messages = earlier.messages[:shared]
        if earlier.spans[shared - 1][1] >= _TAKES_OVER * earlier.spans[-1][1]:
            instead_of = earlier
        grows = shared == len(earlier.messages) and recall.lines.has_room(len(body), shared + len(new))
        notes = Notes(shared, earlier.notes, goes_on=2 * shared > len(earlier.messages))
        asked_at = earlier.asked_at
    else:
        fields = object_spans(body)
        if field not in fields or body[fields[field][0]] != ord("["):
            return None
        new = array_spans(body, *fields[field])
        spans, ends, messages, head = [], [], [], head_of(body, fields, recall)
        notes, asked_at = Notes(), -1
    spans += new
    for start, end in new:
        ends.append(end)
        # What a line grows by was never seen, and the line holds it: to look it up and remember it takes as long as to read it.
        messages.append(parse(body[start:end]) if grows else recall.get(kind, body[start:end], parse))
    if amend is not None:
        amend(messages, len(messages) - len(new))
    asked_at = _asked_at(messages, notes.shared, asked_at)
    history = History(fields, spans, ends, messages, notes, head, asked_at, body)
    recall.lines.keep(kind, body, ends, history, instead_of=instead_of)
    return history


def beginnings(kind: str, field: str, body: bytes, recall: Recall, step_bytes: int) -> Iterator[bytes]:
    """What its client would have sent earlier, longer each time, where more than two steps of its history are new.

    To read them one by one is to read the body in steps of about `step_bytes`: each takes over what the last one had.
    """
    # Before it is compared with its line, which whoever reads it does, too.
    if len(body) <= 2 * step_bytes:
        return
    found = recall.lines.find(kind, body)
    known = found[0].ends[found[1] - 1] if found is not None and isinstance(found[0], History) else 0
    if len(body) - known <= 2 * step_bytes:
        return
    try:
        spans = array_spans(body, *object_spans(body)[field])
    except (NotPlain, KeyError):
        return
    # What is not kept would be read from the start in every step.
    if not recall.lines.has_room(len(body), len(spans)):
        return
    for _, end in spans:
        if end - known >= step_bytes:
            known = end
            yield b"".join((memoryview(body)[:end], b"]}"))


def leading_system(messages: Sequence[Message]) -> int:
    """The number of system messages that lead a history, where system text has no other place."""
    for index, message in enumerate(messages):
        if message.role != "system":
            return index
    return len(messages)


def _asked_at(messages: Sequence[Message], shared: int = 0, earlier: int = -1) -> int:
    """Index of the last message of a user. `earlier`: the same of the request that had the first `shared` messages, too."""
    known = shared if earlier < shared else 0
    for index in range(len(messages) - 1, known - 1, -1):
        if messages[index].role == "user":
            return index
    return earlier if known else -1


def _grown(field: str, body: bytes, earlier: History[Any], shared: int) -> tuple[dict[str, Span], list[Span]] | None:
    """The same as `_continued` where nothing but elements of the array is new; None where something else is, too.

    What follows the array is then not read again: tools are often larger than what a turn adds.
    """
    end, (start, close) = earlier.ends[shared - 1], earlier.fields[field]
    rest = memoryview(earlier.body)[close - 1 :]
    if not body.endswith(rest, end):
        return None
    stop = len(body) - len(rest)
    try:
        elements = array_spans(b"".join((b"[0", memoryview(body)[end:stop], b"]")))
    except NotPlain:
        # The array ends before, and what follows it only ends alike.
        return None
    offset, more = end - len(b"[0"), stop + 1 - close
    fields = {
        name: (at, to) if at < start else (at if at == start else at + more, to + more)
        for name, (at, to) in earlier.fields.items()
    }
    return fields, [(at + offset, to + offset) for at, to in elements[1:]]


def _continued(field: str, body: bytes, earlier: History[Any], shared: int) -> tuple[dict[str, Span], list[Span]]:
    """Fields and new elements of a body whose first `shared` elements, and all before them, are as they were.

    What follows them is read as the rest of an object that begins with this array, a number in place of its elements.
    """
    end = earlier.spans[shared - 1][1]
    opening = b'{"%b":[0' % field.encode()
    tail = opening + body[end:]
    rest = object_spans(tail)
    offset = end - len(opening)
    elements = array_spans(tail, *rest[field])
    fields: dict[str, Span] = {}
    for name, span in earlier.fields.items():
        if name == field:
            break
        fields[name] = span
    if not fields.keys().isdisjoint(rest):
        raise NotPlain("duplicate keys")
    fields[field] = (earlier.fields[field][0], rest[field][1] + offset)
    fields |= {name: (start + offset, stop + offset) for name, (start, stop) in rest.items() if name != field}
    return fields, [(start + offset, stop + offset) for start, stop in elements[1:]]
