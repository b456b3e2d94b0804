"""A case's abstract `policy` as a configuration file of the proxy. What a policy does not speak of is put out of action."""

import json
from typing import Any

NEVER = 10**9


def toml_for(case: dict[str, Any], upstream_url: str) -> str:
    """The configuration file for a case, with every upstream pointing to `upstream_url`."""
    policy = case.get("policy") or {}
    top: dict[str, Any] = {"mode": policy.get("mode", "prune")}
    sections: dict[str, dict[str, Any]] = {
        "server": {"port": 0},
        "store": {"url": "memory://"},
        "log": {"format": "json", "level": (case.get("env") or {}).get("log_level", "info")},
        "arrive": {"enabled": False},
        "prune": _prune(policy.get("prune")),
        "compact": {"trigger": "off"},
        "reasoning": {"strip": "all" if policy.get("strip_reasoning") else "none"},
    }
    for name in ("openai", "anthropic", "gemini"):
        sections[f"upstreams.{name}"] = {"base_url": upstream_url, "ask_usage": policy.get("ask_usage", False)}
    for name in ("max_body_mb", "heartbeat_s"):
        if name in policy:
            sections["server"][name] = policy[name]
    if "require_key" in policy:
        sections["server"]["require_keys"] = [policy["require_key"]]
    if "compact" in policy:
        sections |= _compact(policy["compact"])
    for model in policy.get("must_pass_back", ()):
        sections.setdefault(f'models."{model}"', {})["must_pass_back_reasoning"] = True
    lines = _lines(top)
    for name, values in sections.items():
        lines += ["", f"[{name}]", *_lines(values)]
    return "\n".join(lines) + "\n"


def _prune(wanted: dict[str, Any] | None) -> dict[str, Any]:
    # `dedupe` finds superseded results whatever is recent; without a prune policy nothing may be found.
    values: dict[str, Any] = {
        "policy": "always",
        "protect_tokens": 0,
        "minimum_tokens": 0,
        "protect_user_turns": 0,
        "keep_recent_tool_results": NEVER,
        "min_chars": NEVER,
    }
    names = {"protect_tools": "protected_tools"}
    known = ("keep_recent_tool_results", "min_chars", "protect_tools", "batch_min_chars", "dedupe")
    values.update({names.get(key, key): value for key, value in (wanted or {}).items() if key in known})
    return values


def _compact(wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
    model: dict[str, Any] = {"max_output": 1}
    if wanted.get("window") is not None:
        model["window"] = wanted["window"]
    return {
        'models."*"': model,
        "compact": {
            "trigger": "share",
            "share": wanted["trigger"],
            "background_share": 1.0,
            "model": wanted["summary_model"],
            "keep_recent_messages": wanted["keep_recent_messages"],
            "tail_share": 0,
        },
    }


def _lines(values: dict[str, Any]) -> list[str]:
    # Strings, numbers, booleans and lists of strings are spelled alike in JSON and TOML.
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]
