"""The table of what the provider serves: path → what is done there, by which API."""

import re
from dataclasses import dataclass
from typing import Literal

from proxy.demo.provider.asked import Api
from proxy.demo.provider.chat import Chat
from proxy.demo.provider.gemini import Gemini
from proxy.demo.provider.messages import Messages
from proxy.demo.provider.responses import Responses


@dataclass(frozen=True, slots=True)
class Row:
    """One endpoint."""

    path: re.Pattern[str]
    verb: Literal["answer", "count"]
    api: Api


def rows() -> tuple[Row, ...]:
    """The table, with APIs of its own: Responses remembers its answers."""
    chat, responses, messages, gemini = Chat(), Responses(), Messages(), Gemini()
    model = r"/v1(?:beta)?/models/(?P<model>[^/:]+):"
    table: tuple[tuple[str, Literal["answer", "count"], Api], ...] = (
        (r"/v1/chat/completions", "answer", chat),
        (r"/v1/responses", "answer", responses),
        (r"/v1/responses/input_tokens", "count", responses),
        (r"/v1/messages", "answer", messages),
        (r"/v1/messages/count_tokens", "count", messages),
        (model + r"(?P<verb>generateContent|streamGenerateContent)", "answer", gemini),
        (model + r"(?P<verb>countTokens)", "count", gemini),
    )
    return tuple(Row(re.compile(path), verb, api) for path, verb, api in table)


def row_for(table: tuple[Row, ...], path: str) -> tuple[Row, dict[str, str]] | None:
    """The endpoint at a path and the named parts of the path; None for 404."""
    for row in table:
        found = row.path.fullmatch(path)
        if found:
            return row, found.groupdict()
    return None
