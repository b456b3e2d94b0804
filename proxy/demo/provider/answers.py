"""What the provider answers: a recorded session's own messages, or an echo."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxy.demo.provider.asked import Answer, Asked, Call
from proxy.demo.provider.chat import text_of
from proxy.demo.provider.extractive import asks_for_summary, summary

Answers = Callable[[Asked, Mapping[str, str]], Answer]
"""From the request and its headers (lower-case names) to the answer."""


class Recording:
    """The answers of one recorded session (chat messages): turn k gives its k-th assistant message.

    The turn is the number of assistant messages in the request, or the header `x-demo-turn` (from 0) when the history
    was compacted. A summary is written where one is asked for; any other text of a person that the session does not
    know goes to `otherwise`.
    """

    def __init__(self, messages: Sequence[Mapping[str, Any]], otherwise: Answers | None = None) -> None:
        self._answers = [_answer(message) for message in messages if message["role"] == "assistant"]
        self._said = {text_of(message) for message in messages if message["role"] == "user"}
        self._otherwise = otherwise or echo

    def __call__(self, asked: Asked, headers: Mapping[str, str]) -> Answer:
        """The answer of this request's turn."""
        if asks_for_summary(asked):
            return summary(asked, headers)
        turn = int(headers.get("x-demo-turn", asked.assistants))
        foreign = asked.last_is_user and asked.last_text not in self._said
        if foreign or turn >= len(self._answers):
            return self._otherwise(asked, headers)
        return self._answers[turn]


def recorded(sessions: Mapping[str, Sequence[Mapping[str, Any]]]) -> Answers:
    """Answers of several sessions; the header `x-demo-session` says which. Without it: `echo`."""
    known = {name: Recording(messages) for name, messages in sessions.items()}

    def answers(asked: Asked, headers: Mapping[str, str]) -> Answer:
        return known.get(headers.get("x-demo-session", ""), echo)(asked, headers)

    return answers


def echo(asked: Asked, headers: Mapping[str, str]) -> Answer:
    """A small answer that depends on the request alone; calls every given tool that a person asks to `call`."""
    del headers
    said = " ".join(asked.last_text.split())[:60]
    if not asked.last_is_user:
        return Answer(text=f"The tool said: {said}")
    wished = [name for name in asked.tools if re.search(rf"\bcall\b.*\b{re.escape(name)}\b", asked.last_text)]
    calls = tuple(
        Call(call_id=f"call_{asked.assistants}_{position}", name=name, arguments='{"query":"demo"}')
        for position, name in enumerate(wished)
    )
    return Answer(text="" if calls else f"You said: {said}", calls=calls)


def _answer(message: Mapping[str, Any]) -> Answer:
    return Answer(
        text=text_of(message),
        calls=tuple(
            Call(call_id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ),
        reasoning=message.get("reasoning_content") or "",
    )
