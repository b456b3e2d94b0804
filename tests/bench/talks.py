"""Recorded sessions as clients of each wire format send them, call by call, and what a provider would count for them.

A synthetic provider (`Provider`) counts by rules of its own, some of which the proxy does not know: another tokenizer, more
tokens in code, a larger envelope a message, a preamble that no request shows. `recorded_bills` is what real providers said.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from proxy.conversation.fingerprint import prefix_keys, reply_print
from proxy.conversation.model import Conversation, Message
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.base import Dialect, View
from proxy.exchange.measure import reply_end
from proxy.exchange.receive import Received
from proxy.server.tokenizers import counter
from proxy.tokens.estimate import Memo, Scale
from proxy.wire.body import dumps
from tests.bench.speakers import SPEAKERS
from tests.builders import weigh_request

TRAJECTORIES = Path(__file__).parents[1] / "data" / "trajectories"
_CODE = re.compile(r"[{}()\[\];=<>/\\_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a talk: the messages before index `start` go out, those up to `end` are its answer."""

    start: int
    end: int
    fingerprint: bytes
    """Of the answer, as it comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A session in one wire format."""

    name: str
    model: str
    dialect: Dialect
    conversation: Conversation
    keys: tuple[bytes, ...]
    calls: tuple[Call, ...]
    usage: dict[int, tuple[int, int]]
    """Recorded input and output of the call whose answer begins at that index."""

    def received(self, call: Call) -> Received:
        """The call's request, as the proxy has read it."""
        conversation = msgspec.structs.replace(self.conversation, messages=self.conversation.messages[: call.start])
        view = View(body=b"", conversation=conversation, spans=(), fields={})
        keys = self.keys[: call.start]
        return Received(
            dialect=self.dialect,
            view=view,
            conversation=conversation,
            keys=keys,
            candidates=(),
            seed=b"",
            origin=b"",
        )

    def answer(self, call: Call) -> tuple[Message, ...]:
        """The messages of the answer."""
        return self.conversation.messages[call.start : call.end]


def talks(form: str, pattern: str = "*", every: int = 1) -> Iterator[Talk]:
    """The recorded sessions whose names match, each so manieth, in the format of one speaker."""
    for path in sorted(TRAJECTORIES.glob(f"{pattern}.json.gz"))[::every]:
        yield talk_of(json.loads(gzip.decompress(path.read_bytes())), form)


def talk_of(session: dict[str, Any], form: str) -> Talk:
    """A recorded session, said by the speaker of this format and read by the proxy's dialect."""
    speaker = SPEAKERS[form]
    path = speaker.path.partition("?")[0]
    dialect = dialect_for(path)
    assert dialect is not None, path
    view = dialect.view(path, {}, dumps(speaker.body(session.get("tools") or [], session["messages"])), Recall())
    assert view is not None, f"{session['id']} is not read as {form}"
    messages = view.conversation.messages
    led = len(session["messages"]) - len(messages)
    return Talk(
        name=session["id"],
        model=session["model"],
        dialect=dialect,
        conversation=view.conversation,
        keys=tuple(prefix_keys(b"", messages)),
        calls=tuple(_calls(messages)),
        # Only a chat's messages are the log's own, behind the system text that leads them.
        usage={
            one["message_index"] - led: (one["input"], one["output"] or 0)
            for one in session["recorded_usage"]
            if form == "chat" and one["input"]
        },
    )


def _calls(messages: tuple[Message, ...]) -> Iterator[Call]:
    at = 0
    while at < len(messages):
        if messages[at].role == "assistant":
            end = reply_end(messages, at - 1)
            yield Call(start=at, end=end, fingerprint=reply_print(messages[at:end]))
            at = end
        at += 1


Bill = tuple[int, int]
"""Input and output tokens of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Counts by `count`, and adds its own to what the wire format's envelopes are known to be."""

    name: str
    count: Callable[[str], int]
    kind: str
    """known or unknown: whether `count` is also the proxy's. noisy: no estimate can be nearer than its counts are."""
    envelope: int = 0
    """More tokens for each message."""
    preamble: int = 0
    """Tokens in front of everything."""
    noise: float = 0.0
    """It reports up to so much more or less of the input, in parts of it."""

    def bills(self, talk: Talk, memo: Memo) -> list[Bill]:
        """What it reports for each call of the talk."""
        scale = Scale(
            encoding=self.name, count=self.count, dialect=talk.conversation.dialect, model="theirs", memo=memo
        )
        request = msgspec.structs.replace(talk.conversation, messages=())
        total = self.preamble + weigh_request(scale, request) + self.envelope * len(request.system)
        bills, at, chance = [], 0, Random(talk.name)
        for call in talk.calls:
            total += self._weigh(scale, talk.conversation.messages[at : call.start])
            answer = talk.answer(call)
            reported = round(total * (1 + chance.uniform(-self.noise, self.noise)))
            bills.append((reported, scale.weigh_messages(answer) - scale.overheads.message * len(answer)))
            at = call.start
        return bills

    def _weigh(self, scale: Scale, messages: tuple[Message, ...]) -> int:
        return scale.weigh_messages(messages) + self.envelope * len(messages)


def recorded_bills(talk: Talk) -> list[Bill | None]:
    """What a real provider reported for each call; None where the log does not say."""
    return [talk.usage.get(call.start) for call in talk.calls]


def providers() -> list[Provider]:
    """The synthetic ones."""
    o200k, cl100k = remembering(counter("o200k_base")), remembering(counter("cl100k_base"))
    dense = remembering(_denser_on_code(o200k))
    return [
        Provider(name="o200k, as we count", count=o200k, kind="known"),
        Provider(name="o200k, 7 more a message", count=o200k, kind="known", envelope=7),
        Provider(name="o200k, 3 fewer a message", count=o200k, kind="known", envelope=-3),
        Provider(name="o200k, preamble of 900", count=o200k, kind="known", preamble=900),
        Provider(name="cl100k", count=cl100k, kind="unknown"),
        Provider(name="12 % denser everywhere", count=_denser(o200k, 1.12), kind="unknown"),
        Provider(name="30 % denser everywhere", count=_denser(o200k, 1.3), kind="unknown"),
        Provider(name="8 % denser, 4 more", count=_denser(o200k, 1.08), kind="unknown", envelope=4),
        Provider(name="30 % denser on code", count=dense, kind="unknown"),
        Provider(name="all: denser, 7 more, 900", count=dense, kind="unknown", envelope=7, preamble=900),
        Provider(name="o200k, off by up to 1 %", count=o200k, kind="noisy", noise=0.01),
    ]


def remembering(count: Callable[[str], int]) -> Callable[[str], int]:
    """The same counter; what it has counted once costs nothing any more."""
    return cache(count)


def _denser(count: Callable[[str], int], factor: float) -> Callable[[str], int]:
    return remembering(lambda text: round(factor * count(text)))


def _denser_on_code(count: Callable[[str], int]) -> Callable[[str], int]:
    """30 % more where a tenth of the characters are signs."""

    def dense(text: str) -> int:
        tokens = count(text)
        return round(tokens * 1.3) if len(_CODE.findall(text)) * 10 > len(text) else tokens

    return dense
