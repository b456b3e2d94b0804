"""May an older message change while signed reasoning stands behind it?

Some models bind each signed or encrypted reasoning block to everything before it. An edit in front of such a block
makes the provider refuse the call (Anthropic: "Prefix checks on thinking blocks", 2026-08) or drop the reasoning
without a word (OpenAI: "Keep the prefix unchanged", from GPT-6.2 on). Older Claude models check only the open turn.
Edits of results that no model has seen are always fine: no reasoning stands behind them yet.
"""

import re
from collections.abc import Sequence
from typing import Literal

from proxy.conversation.model import Message, Reasoning, ToolCall, last_words

Verdict = Literal["allow", "forbid", "needs_drop_option"]

_CLAUDE = re.compile(r"(?:opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_CLAUDE_OLD = re.compile(r"claude-(\d+)-(\d{1,2})-(?:opus|sonnet|haiku)")
# Azure writes gpt-3.5 as gpt-35.
_GPT = re.compile(r"gpt-(?!35)(\d{1,2})(?:-(\d{1,2}))?(?!\d)")


def gate(model: str, messages: Sequence[Message], first_changed: int, *, binds: bool = False) -> Verdict:
    """Whether message `first_changed` may be edited. `binds`: see `bound_until`.

    `needs_drop_option`: only together with the provider's documented option to drop the blocks behind it.
    """
    rule = "claude_prefix" if binds else _rule(model)
    if rule == "none" or first_changed >= bound_until(model, messages, binds=binds):
        return "allow"
    return "needs_drop_option" if rule == "claude_prefix" else "forbid"


def bound_until(model: str, messages: Sequence[Message], *, binds: bool = False) -> int:
    """Index of the first message that no bound reasoning stands behind; messages before it must not change.

    `binds`: the model was seen to bind reasoning to its prefix, whatever its name says.
    """
    rule = "openai_prefix" if binds else _rule(model)
    if rule == "none":
        return 0
    last = next((index for index in range(len(messages) - 1, -1, -1) if _is_signed(messages[index])), -1)
    if rule == "claude_turn":
        # Closed turns are not checked; in the open one, behind a person's last words, everything is.
        return last + 1 if last > last_words(messages) else 0
    return last + 1


def _rule(model: str) -> Literal["none", "claude_prefix", "claude_turn", "openai_prefix"]:
    name = model.lower().replace(".", "-").replace("_", "-")
    if found := _CLAUDE.search(name):
        major, minor = int(found[1]), int(found[2] or 0)
        newest = (5, 1) if "fable" in name or "mythos" in name else (5, 5)
        return "claude_prefix" if (major, minor) >= newest else "claude_turn"
    if _CLAUDE_OLD.search(name):
        return "claude_turn"
    if found := _GPT.search(name):
        return "openai_prefix" if (int(found[1]), int(found[2] or 0)) >= (6, 2) else "none"
    return "none"


def _is_signed(message: Message) -> bool:
    return any(isinstance(part, Reasoning | ToolCall) and part.signed for part in message.parts)
