"""A call in one line, for whoever watches the log in a terminal."""

from collections.abc import Mapping
from typing import Any

from proxy.reports.words import signed_percent


def spoken(call: Mapping[str, Any]) -> str:
    """What is most asked of a call, from the fields of its `context_estimate`: what came, what was saved, what went wrong."""
    said = [_input(call)]
    if call["output_tokens"]:
        said.append(f"{call['output_tokens']:,} out")
    if call["outcome"] != "ok":
        said.insert(0, _failure(call))
    said += _pruned(call)
    if call["failed_open"]:
        said.append(f"sent as it came: {call['failed_open']} failed")
    about = "" if call["purpose"] == "main" else f" ({call['purpose']})"
    return f"{call['session'][:8]} #{call['turn']} {call['upstream']} {call['model']}{about}: {', '.join(said)}"


def _failure(call: Mapping[str, Any]) -> str:
    status = call["status"] if call["outcome"] == "error" else ""
    return " ".join(str(one) for one in (call["outcome"], status, call["error_type"]) if one)


def _input(call: Mapping[str, Any]) -> str:
    actual, estimated = call["actual"], f"{call['estimated']:,}"
    if actual is None:
        return f"about {estimated} in"
    cached = f", {call['cached_tokens']:,} of them cached" if call["cached_tokens"] else ""
    off = "" if call["error_percent"] is None else f" (estimate {signed_percent(call['error_percent'])})"
    return f"{actual:,} in{off}{cached}"


def _pruned(call: Mapping[str, Any]) -> list[str]:
    removed, would = call["removed_tokens"], call["would_remove_tokens"]
    said = []
    if removed or would:
        said.append(f"{removed:,} left out" if removed else f"{would:,} would have been left out")
    if call["new_edits"]:
        said.append("new: " + " ".join(f"{count} {kind}" for kind, count in call["new_edits"].items()))
    return said
