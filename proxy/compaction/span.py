"""Which messages a summary replaces: the old part, with calls and results whole, and the user's words kept.

    [first user message] [ ............ span ............ ] [ ....... tail ....... ]
      stays when short       becomes one user message           stays as it is
    not where roles must                                        begins with the model
     alternate                                                   there

The newest message of the user always stays word for word: in the tail, in front of the span where the conversation
began with it, or else quoted in the summary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.compaction.policy import MOST_TAIL_TOKENS, CompactPolicy
from proxy.conversation.model import Message, Text
from proxy.conversation.pairing import cut_positions

_SHORT_SHARE = 0.05
"""Of the usable window: a first message up to this size is not worth summarising."""
_QUOTED_SHARE = 0.2
"""Of the usable window: most that a quoted user message may take."""
_LEAST_GAIN = 0.2
"""Of the history: a span below this cannot bring the saving that a summary must bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Messages first … last, both included."""

    first: int
    last: int
    quote: str = ""
    """The user's newest words, where they stand inside the span."""


def choose_span(
    messages: Sequence[Message],
    tokens: Sequence[int],
    policy: CompactPolicy,
    usable: int,
    *,
    must_cover: int = -1,
    merges: bool = False,
    alternates: bool = False,
) -> Span | None:
    """The span to summarise; None when there is too little of it.

    `tokens`: of each message as it goes out. `must_cover`: index of the last message that an earlier summary covers;
    the new one takes it in. `merges`: there are several, or a long one, and it may be of what they cover alone. `alternates`: roles must, so
    the model speaks next behind the span, and nothing stands before it.
    """
    least_tail = max(1, policy.keep_recent_messages)
    cuts = [cut for cut in cut_positions(messages) if cut <= len(messages) - least_tail]
    if alternates:
        cuts = [cut for cut in cuts if cut == 0 or messages[cut].role == "assistant"]
    if not cuts:
        return None
    room = min(MOST_TAIL_TOKENS, policy.tail_share * usable)
    behind = 0
    roomy = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        behind += tokens[index]
        if behind > room:
            break
        roomy = index
    cut = next((cut for cut in cuts if cut >= roomy), cuts[-1])
    if merges:
        # What they cover is no tail any more, however little it takes.
        cut = max(cut, must_cover + 1)
    newest = _newest_words(messages)
    start = _start(messages, tokens, usable, newest) if must_cover < 0 and not alternates else 0
    while start < cut and start not in cuts:
        start += 1
    if cut - 1 <= max(start - 1, must_cover - merges) or sum(tokens[start:cut]) < _LEAST_GAIN * sum(tokens):
        return None
    quote = words(messages[newest])[: int(usable * _QUOTED_SHARE) * 4] if start <= newest < cut else ""
    return Span(first=start, last=cut - 1, quote=quote)


def _start(messages: Sequence[Message], tokens: Sequence[int], usable: int, newest: int) -> int:
    if not messages or messages[0].role != "user":
        return 0
    most = 0.5 if newest == 0 else _SHORT_SHARE
    return 1 if tokens[0] <= most * usable else 0


def _newest_words(messages: Sequence[Message]) -> int:
    """Index of the last message in which a person says something; -1 for none."""
    return next(
        (
            index
            for index in range(len(messages) - 1, -1, -1)
            if messages[index].role == "user" and words(messages[index])
        ),
        -1,
    )


def words(message: Message) -> str:
    """The visible text of a message."""
    return "\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text.strip())
