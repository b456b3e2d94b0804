"""Values with defaults, so that a test states only what matters, and a pure conversation line for whole turns."""

import json
from dataclasses import replace
from itertools import count as numbers

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import Plan, Replace, Summarise
from proxy.conversation.fingerprint import digest, reply_print
from proxy.conversation.model import Message, Text
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.dialects.base import Observation
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import prepare
from proxy.exchange.receive import deepest, memory_of, receive
from proxy.exchange.settle import Circumstances, settle
from proxy.ledger.records import Anchor, Reply, Turn
from proxy.pruning.policy import PrunePolicy
from proxy.tokens.context import ContextSize, usable_tokens
from proxy.tokens.estimate import Memo, Scale
from proxy.tokens.learn import NOTHING_LEARNED
from proxy.tokens.usage import Usage

PATH = "/v1/chat/completions"

QUIET = Policy(prune=PrunePolicy(policy="pressure"), compact=CompactPolicy(trigger="off"))
"""Decides nothing as long as no window is given."""

EAGER = Policy(
    prune=PrunePolicy(policy="always", protect_tokens=0, minimum_tokens=0), compact=CompactPolicy(trigger="off")
)
"""Prunes every result that a model has seen, as soon as it may."""


def words(label, tokens):
    """A text of that many tokens by `count`, different for each label."""
    return (f"{label} " + "lorem ipsum " * tokens)[: tokens * 4]


def count(text):
    """Four characters are one token, at least one."""
    return (len(text) + 3) // 4


def a_message(role="user", text="hello", **more):
    parts = more.pop("parts", (Text(text=text),))
    return Message(role=role, parts=parts, digest=digest([role, repr(parts)]), **more)


# ------------------------------------------------------------------------------------------- a chat history as JSON


def user(text="go on"):
    return {"role": "user", "content": text}


def said(text="done", **more):
    return {"role": "assistant", "content": text, **more}


def calls(*call_ids, tool="read", **more):
    made = [
        {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps({"path": call_id})}}
        for call_id in call_ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made, **more}


def result(call_id, text="fine"):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def rounds(*texts, tool="read", first="do it"):
    """A user's request, then one call with its result for each text."""
    history = [user(first)]
    for number, text in enumerate(texts):
        history += [calls(f"c{number}", tool=tool), result(f"c{number}", text)]
    return history


def a_body(history, **fields):
    return json.dumps({"model": "m", "messages": history, **fields}).encode()


# ------------------------------------------------------------------------------------------------------ what is read


def a_received(history=None, *, caller="someone", recall=None, path=PATH, body=None, **fields):
    """A request as `receive` gives it."""
    raw = a_body(history if history is not None else [user()], **fields) if body is None else body
    received = receive(dialect_for(path), path, {}, raw, caller=caller, recall=Recall() if recall is None else recall)
    assert received is not None
    return received


def a_view(history=None, **more):
    return a_received(history, **more).view


def a_scale(*, dialect="openai_chat", model="m", memo=None):
    return Scale(encoding="test", count=count, dialect=dialect, model=model, memo=memo or Memo())


def weigh_request(scale, conversation):
    """The pure estimate: system, tools, all messages and the reply's priming."""
    return (
        scale.weigh_messages(conversation.system)
        + scale.weigh_tools(conversation.tools)
        + scale.weigh_messages(conversation.messages)
        + scale.overheads.request
    )


def an_anchor(**more):
    known = {"key": b"k" * 16, "session": "s1", "turn": 1, "at": 1000.0, "upstream": "openai", "model": "m"}
    return Anchor(**{**known, **more})


def a_turn(**more):
    known = {
        "session": "s1",
        "turn": 1,
        "at": 1000.0,
        "upstream": "openai",
        "model": "m",
        "dialect": "openai_chat",
        "basis": "anchored",
        "estimated": 100,
    }
    return Turn(**{**known, **more})


def a_context(**more):
    """By default 1,000 tokens of messages and nothing else."""
    known = {
        "total": 1000,
        "basis": "estimated",
        "last_input": 0,
        "last_output_resent": 0,
        "new": 0,
        "corrections": 0,
        "system": 0,
        "tools": 0,
        "messages": more.get("total", 1000),
        "reasoning": 0,
        "warning": "",
        "window": None,
        "reserve": 0,
        "max_input": None,
        **more,
    }
    usable = usable_tokens(known["window"], known["reserve"], known["max_input"])
    return ContextSize(usable=usable, **known)


def a_clear(received, at, *, text="[gone]", before=1000, after=2):
    """The result in message `at` is replaced."""
    return Replace(
        at=received.keys[at],
        part=0,
        kind="clear",
        text=text,
        reason="older output",
        tool="read",
        tokens_before=before,
        tokens_after=after,
    )


def a_summary(received, first, last, *, text="what was before", before=1000, after=20):
    """Messages first … last become one text."""
    return Summarise(
        first=received.keys[first],
        last=received.keys[last],
        text=text,
        reason="written by the model",
        tokens_before=before,
        tokens_after=after,
        by_model=True,
    )


def an_observation(text="done", *, tools=(), **more):
    """An answer with this text; `usage` and the rest as given."""
    message = a_message("assistant", text)
    return Observation(**{"replies": (Reply(fingerprint=reply_print([message])),), **more})


# ------------------------------------------------------------------------------------------------ whole turns, purely


def messages_of(body):
    return json.loads(body)["messages"]


class Line:
    """A ledger of two dictionaries, and turns as the handler makes them, without anything that awaits."""

    def __init__(self, policy=QUIET, *, caller="someone", scale=None):
        self.policy = policy
        self.caller = caller
        self.scale = scale or a_scale()
        self.recall = Recall()
        self.anchors = {}
        self.plans = {}
        self.turns = []
        self._clock = numbers(1000)

    def memory(self, received):
        anchors = [self.anchors.get(key) for key in received.lookup()]
        line, measured = deepest(received, anchors)
        return memory_of(received, anchors, line, measured, self.plans)

    def prepared(self, history=None, *, now=None, summary=None, policy=None, learned=NOTHING_LEARNED, **fields):
        received = a_received(history, caller=self.caller, recall=self.recall, **fields)
        memory = self.memory(received)
        ready = prepare(
            received,
            memory,
            policy or self.policy,
            self.scale,
            now=float(next(self._clock)) if now is None else now,
            summary=summary,
            learned=learned,
        )
        if ready.plan.edits and ready.plan is not memory.plan:
            self.anchors[ready.anchor.key] = ready.anchor
            self.plans[ready.anchor.plan_id] = ready.plan
        return ready

    def answered(self, ready, observation=None, **circumstances):
        """The provider's answer; by default it reports exactly what was predicted and 20 tokens of output."""
        if observation is None:
            observation = an_observation(usage=Usage(input_tokens=ready.context.total, output_tokens=20))
        known = {"upstream": "openai", "status": 200, "overhead_ms": 1.0}
        settled = settle(ready, observation, Circumstances(**{**known, **circumstances}))
        if settled.anchor is not None:
            self.anchors[settled.anchor.key] = settled.anchor
        for anchor in settled.others:
            self.anchors[anchor.key] = anchor
            if anchor.plan_id:
                self.plans[anchor.plan_id] = ready.plan
        self.turns.append(settled.turn)
        return settled

    def turn(self, history, **more):
        """Prepared and answered."""
        ready = self.prepared(history, **more)
        self.answered(ready)
        return ready


def a_memory(line, history, **fields):
    return line.memory(a_received(history, caller=line.caller, **fields))


def with_window(policy, window, **more):
    return replace(policy, window=window, **more)


def plan_of(*edits):
    return Plan(tuple(edits))
