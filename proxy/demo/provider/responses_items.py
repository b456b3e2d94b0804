"""Items of the Responses API: their rules, their size, and the items of an answer."""

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.demo.provider.asked import OPENAI_ENVELOPE, Reply, Unit, unit
from proxy.demo.provider.chat_rules import error

_PROGRAMS = ("program", "program_output")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "computer_call", "apply_patch_call", "shell_call")
_OUTPUTS = tuple(f"{name}_output" for name in _CALLS)
_THINGS = ("reasoning", "compaction", "compaction_trigger", "item_reference", "web_search_call")


def kind_of(item: Mapping[str, Any]) -> str:
    """The item's type; a message may leave it out."""
    return str(item.get("type") or "message")


def check(history: Sequence[Mapping[str, Any]], reasoning_of: Mapping[str, str]) -> None:
    """Raises Refused where a call has no output, an output no call, or reasoning and its item are parted."""
    calls = {item["call_id"] for item in history if kind_of(item) in _CALLS}
    outputs = {item["call_id"] for item in history if kind_of(item) in _OUTPUTS}
    seen: set[str] = set()
    for number, item in enumerate(history):
        kind = kind_of(item)
        if kind in _CALLS and item["call_id"] not in outputs:
            raise error(f"No tool output found for function call {item['call_id']}.", param="input")
        if kind in _OUTPUTS and item["call_id"] not in calls:
            raise error(f"No tool call found for function call output with call_id {item['call_id']}.", param="input")
        if kind == "message" and item.get("role") not in ("user", "assistant", "system", "developer"):
            raise error(
                f"Invalid value: '{item.get('role')}'. Supported values are: 'assistant', 'system', 'developer', and "
                "'user'.",
                code="invalid_value",
                param=f"input[{number}]",
            )
        if kind not in (*_CALLS, *_OUTPUTS, *_PROGRAMS, *_THINGS, "message"):
            raise error(f"Invalid value: '{kind}'.", code="invalid_value", param=f"input[{number}]")
        if kind == "compaction_trigger" and number < len(history) - 1:
            raise error("Item of type 'compaction_trigger' must be the last input item.", param=f"input[{number}]")
        _check_reasoning(number, history, reasoning_of, seen)
        seen.add(str(item.get("id")))


def _check_reasoning(
    number: int, history: Sequence[Mapping[str, Any]], reasoning_of: Mapping[str, str], seen: set[str]
) -> None:
    item = history[number]
    own = str(item.get("id"))
    if kind_of(item) == "reasoning" and not any(map(_is_said, history[number + 1 : number + 2])):
        raise error(
            f"Item '{own}' of type 'reasoning' was provided without its required following item.", param="input"
        )
    needed = reasoning_of.get(own)
    if needed and needed not in seen:
        raise error(
            f"Item '{own}' of type '{kind_of(item)}' was provided without its required 'reasoning' item: '{needed}'.",
            param="input",
        )


def _is_said(item: Mapping[str, Any]) -> bool:
    """The model wrote this item."""
    return kind_of(item) in (*_CALLS, *_PROGRAMS, "reasoning") or item.get("role") == "assistant"


def assistant_turns(history: Sequence[Mapping[str, Any]]) -> int:
    """Runs of items that the model wrote."""
    said = [_is_said(item) for item in history]
    return sum(now and not before for before, now in zip([False, *said], said, strict=False))


def text_of(item: Mapping[str, Any]) -> str:
    """All text of a message or an output."""
    content = item.get("content") or item.get("output") or item.get("result") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def unit_of(item: Mapping[str, Any], media_tokens: int) -> Unit:
    """An item as the provider counts it. Returned reasoning counts what it once cost, which its seal tells.

    What goes between a program and the client stays out of the model's context (guide "Programmatic Tool Calling").
    """
    kind = kind_of(item)
    if (item.get("caller") or {}).get("type") == "program":
        return unit(item, (), 0)
    if kind == "program":
        return unit(item, (kind, item["code"]), OPENAI_ENVELOPE.message + OPENAI_ENVELOPE.call)
    if kind == "reasoning":
        cost = str(item.get("encrypted_content") or "").partition(".")[2]
        return unit(item, (), int(cost) if cost.isdigit() else 0)
    if kind in _CALLS:
        given = item.get("arguments") or item.get("input") or ""
        return unit(item, (str(item.get("name") or ""), str(given)), OPENAI_ENVELOPE.message + OPENAI_ENVELOPE.call)
    overhead = OPENAI_ENVELOPE.message + (OPENAI_ENVELOPE.result if kind in (*_OUTPUTS, "program_output") else 0)
    content = item.get("content") or item.get("output")
    if isinstance(content, list):
        overhead += media_tokens * sum(part.get("type") in ("input_image", "input_file") for part in content)
    return unit(item, (text_of(item),), overhead)


def output(reply: Reply) -> list[dict[str, Any]]:
    """The items of an answer: reasoning, message, calls."""
    answer = reply.answer
    tail = f"demo{reply.number:06d}"
    made: list[dict[str, Any]] = []
    if answer.reasoning:
        sealed = f"{reply.seal}.{reply.bill.reasoning}"
        made.append({"id": f"rs_{tail}", "type": "reasoning", "summary": [], "encrypted_content": sealed})
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        said = {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
        made.append({"id": f"msg_{tail}", **said})
    made += [
        {
            "id": f"fc_{tail}_{position}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
        }
        for position, call in enumerate(answer.calls)
    ]
    return made
