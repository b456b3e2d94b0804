"""Conversations of tool-using agents, built from a few words."""

import msgspec

from proxy.conversation.edit import EMPTY_PLAN, Replace
from proxy.conversation.fingerprint import digest, prefix_keys, seed_key
from proxy.conversation.model import Message, Part, Text, ToolCall, ToolResult, after_last_assistant
from proxy.pruning.situation import Situation
from proxy.pruning.standing import behind_marked


def count(text: str) -> int:
    """Four characters are one token, at least one."""
    return (len(text) + 3) // 4


def a_message(role, *parts: Part, **more) -> Message:
    return Message(role=role, parts=parts, digest=digest([role, repr(parts)]), **more)


def user(text="go on") -> Message:
    return a_message("user", Text(text=text))


def call(call_id, tool="read", arguments='{"path":"a"}') -> Message:
    return a_message("assistant", ToolCall(call_id=call_id, name=tool, arguments=arguments))


def result(call_id, text, **more) -> Message:
    return a_message("tool", ToolResult(call_id=call_id, text=text, **more))


def words(label: str, tokens: int) -> str:
    """A text of that many tokens by `count`, different for each label."""
    return (f"{label} " + "lorem ipsum " * tokens)[: tokens * 4]


def rounds(*texts, tool="read") -> list[Message]:
    """One call and its result for each text, behind a user's request."""
    messages = [user()]
    for number, text in enumerate(texts):
        messages += [call(f"c{number}", tool, f'{{"path":"{len(text)}/{number}"}}'), result(f"c{number}", text)]
    return messages


def answered(messages) -> list[Message]:
    """The same, all of it seen by the model."""
    return [*messages, a_message("assistant", Text(text="done"))]


def part_tokens(part: Part) -> int:
    match part:
        case Text() | ToolResult():
            return count(part.text)
        case ToolCall():
            return count(part.name + part.arguments)
        case _:
            return 1


def a_situation(messages, plan=EMPTY_PLAN, **more) -> Situation:
    messages = tuple(messages)
    keys = prefix_keys(seed_key("test", "someone"), messages)
    parts = [tuple(map(part_tokens, message.parts)) for message in messages]
    tokens = list(map(sum, parts))
    index = {key: position for position, key in enumerate(keys)}
    for edit in plan.edits:
        if isinstance(edit, Replace) and edit.at in index:
            tokens[index[edit.at]] -= edit.tokens_before - edit.tokens_after
    known = {
        "messages": messages,
        "keys": keys,
        "seen": after_last_assistant(messages),
        "count": count,
        "parts_tokens": parts.__getitem__,
        "message_tokens": tokens,
        "total": sum(tokens),
        "plan": plan,
        "tools": ("read",),
        "behind_marked": max(behind_marked(messages), default=0),
    }
    return Situation(**{**known, **more})


def places(edits, situation) -> list[tuple[int, int]]:
    """Message and part of each edit."""
    return [(list(situation.keys).index(edit.at), edit.part) for edit in edits]


def next_turn(situation, edits, *more) -> Situation:
    """The following request: the client resends everything and more, the plan has grown."""
    grown = a_situation((*situation.messages, *more), situation.plan.with_edits(tuple(edits)))
    return msgspec.structs.replace(grown, window=situation.window, prices=situation.prices, tools=situation.tools)


def taken_in(steps):
    """What each step gave, the outcome last."""
    found = yield from steps
    yield found
