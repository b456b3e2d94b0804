"""Pure: the only room that knows a provider's field names.

DIALECTS is the one table: how a request's path ends → which dialect reads it. A new dialect is one module and one row.

    openai_chat, openai_responses, anthropic_messages, gemini
                            the dialects: each with view, rewrite, stream, reasoning, summary and usage
    base                    what every dialect can do
    history, fields, media  reading: the long array, small readings, media parts
    labels, utility         what clients call their sessions, and their own side calls
    lens, kept              plans applied to bodies; reasoning as the ledger keeps it
    refusals, unannounced   what errors mean; streams whose headers do not say so
    counting, models        asking for a count; windows in a list of models
    session_files           sessions as clients keep them on disk
"""

import re
from functools import lru_cache

from proxy.dialects.anthropic_messages import AnthropicMessages
from proxy.dialects.base import Dialect
from proxy.dialects.gemini import Gemini
from proxy.dialects.openai_chat import OpenAIChat
from proxy.dialects.openai_responses import OpenAIResponses

DIALECTS: tuple[tuple[re.Pattern[str], Dialect], ...] = (
    (re.compile(r"/chat/completions$"), OpenAIChat()),
    (re.compile(r"/responses(/input_tokens)?$"), OpenAIResponses()),
    # Vertex serves the same bodies under …/models/MODEL:rawPredict, streamRawPredict and count-tokens:rawPredict.
    (
        re.compile(r"/v1/messages(/count_tokens)?$|/publishers/anthropic/models/[^/]+:(r|streamR)awPredict$"),
        AnthropicMessages(),
    ),
    (
        re.compile(
            r"(/(models|tunedModels|endpoints)/[^/:]+|/v1internal):(generateContent|streamGenerateContent|countTokens)$"
        ),
        Gemini(),
    ),
)


def dialect_for(path: str) -> Dialect | None:
    """The dialect of a path (without query); None for everything that we relay unread."""
    return _known(path) if len(path) <= _LONGEST_KNOWN else _found(path)


def _found(path: str) -> Dialect | None:
    return next((dialect for pattern, dialect in DIALECTS if pattern.search(path)), None)


_LONGEST_KNOWN = 256
_known = lru_cache(maxsize=256)(_found)
"""Clients ask for few paths, again and again."""
