"""What providers want of earlier reasoning, one row a family of models.

Asked of the table by model name, and by the upstream where the host makes the rule: routers (OpenRouter, Vercel) pass
the rule of the model behind them through. A setting, or a refusal that was learned from, comes before the table.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

Demand = Literal["", "open_calls", "calls", "named", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningRule:
    """What a model wants of the reasoning of earlier answers."""

    name: str = "optional"
    """For people."""
    demands: Demand = ""
    """Answers that must come back with theirs: those with tool calls since the user's last words, all with tool calls,
    those whose items come back under the provider's own ids, or every one."""
    signatures: bool = False
    """What must come back is the signature on the answer's first call, not the text (Gemini)."""
    keeps: bool = False
    """Reasoning must not be left out: the provider pairs it with what follows, and drops by itself what it needs no
    more."""
    refuses: bool = False
    """Requests with reasoning in them are refused."""
    drops: bool = False
    """Reasoning of the turns before the user's last words is sent back, but counts no more: the provider takes it out."""
    binds: bool = False
    """Was seen to refuse edits in front of signed reasoning, beyond the models that `pruning.gate` knows."""


OPTIONAL = ReasoningRule()
"""Nothing breaks without it: xAI, Groq, Z.ai, Mistral, llama.cpp, vLLM, Ollama, and whoever is unknown."""

_DEMANDED = ReasoningRule(name="must come back", demands="all")
REFUSED = ReasoningRule(name="must not come back", refuses=True)
"""All reasoning goes, that of the open turn too."""

# Upstream (empty: any), model, rule. The first that matches counts. Source and date stand above each row.
_ROWS: tuple[tuple[str, re.Pattern[str], ReasoningRule], ...] = tuple(
    (upstream, re.compile(model, re.IGNORECASE), rule)
    for upstream, model, rule in (
        # DeepSeek API docs, "Reasoning Model" (2025-01): 400 if `reasoning_content` stands in the input.
        ("deepseek", r"deepseek-r1\b", replace(REFUSED, name="DeepSeek R1")),
        # DeepSeek API docs, "Thinking Mode" (2026-08): back with every tool call; clients report every answer (400 "The
        # `reasoning_content` in the thinking mode must be passed back to the API.").
        (
            "",
            r"deepseek-(reasoner|chat|v3[.-][2-9]|v[4-9])",
            ReasoningRule(name="DeepSeek thinking", demands="all"),
        ),
        # Moonshot platform docs, "Thinking models" (2026-09): 400 "thinking is enabled but reasoning_content is missing
        # in assistant tool call message at index N".
        (
            "",
            r"kimi-(k2.*thinking|k2[.-][5-9]|k[3-9]|thinking|for-coding)",
            ReasoningRule(name="Kimi thinking", demands="calls"),
        ),
        # Gemini API docs, "Thought signatures" (2026-10): required on the first call of every step of the current turn.
        (
            "",
            r"gemini-([3-9]|\d\d)",
            ReasoningRule(name="Gemini signatures", demands="open_calls", signatures=True),
        ),
        # Anthropic docs, "Extended thinking" (2026-10): models before Opus 4.5 and Sonnet 4.6 take out that of earlier turns.
        (
            "",
            r"claude-(3[.-]7|opus-4([.-][01])?(@|-20|-latest|$)|sonnet-4([.-]0)?(@|-20|-latest|$)|(sonnet|haiku)-4[.-]5)",
            ReasoningRule(name="Claude thinking", demands="open_calls", drops=True),
        ),
        # The same: within a tool loop, unmodified, in front of the tool use.
        (
            "",
            r"claude|(opus|sonnet|haiku|fable|mythos)-\d",
            ReasoningRule(name="Claude thinking", demands="open_calls"),
        ),
        # OpenAI guide "Reasoning models" (2026-10): items belong to the call or message behind them, and one with an id
        # is refused without its own; those of earlier turns are dropped by the server itself.
        (
            "",
            r"(^|/)(gpt-[5-9]|o[1-9](-|$)|codex)",
            ReasoningRule(name="OpenAI reasoning items", demands="named", keeps=True),
        ),
    )
)


def reasoning_rule(model: str, *, upstream: str = "", must_pass_back: bool | None = None) -> ReasoningRule:
    """The rule for a model at an upstream. `must_pass_back`: the setting; None leaves it to the table."""
    if must_pass_back is not None:
        return _DEMANDED if must_pass_back else OPTIONAL
    found = (
        rule for host, pattern, rule in _ROWS if host in ("", upstream) and pattern.search(model.replace("_", "-"))
    )
    return next(found, OPTIONAL)


Lesson = Literal["", "demanded", "refused", "bound"]
"""What a refusal taught: reasoning must come back, must not come back, or is bound to what stands before it."""


def learned_rule(rule: ReasoningRule, lesson: Lesson) -> ReasoningRule:
    """The rule after what a refusal taught."""
    match lesson:
        case "demanded":
            return replace(rule, name=rule.name if rule.demands else _DEMANDED.name, demands="all")
        case "refused":
            return REFUSED
        case "bound":
            return replace(rule, binds=True)
        case "":
            return rule
