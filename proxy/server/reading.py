"""Reading what came, and weighing it, so that the loop has its turns.

Going on with a long history takes it for some milliseconds, and one that is new for tens of them. Of several that come at
once, one in a turn of the loop is read, and a very long one that is new in many turns, as if it had grown. Of new ones (to a process that has just started) one after the other is counted: the
first can go on when its own is, and everybody's streams wait for one step instead of for one of each.
"""

import asyncio

from proxy.conversation.model import after_last_assistant
from proxy.dialects.base import Dialect
from proxy.dialects.history import beginnings
from proxy.errors import BodyTooLarge, ProxyError
from proxy.exchange.policy import Policy
from proxy.exchange.receive import Received, receive
from proxy.exchange.situations import passages_in
from proxy.exchange.weigh import known_weights
from proxy.pruning.plan import read_names
from proxy.server.call import Shared
from proxy.server.relay import Exchange
from proxy.server.tokenizers import warm
from proxy.tokens.estimate import Scale, texts_of
from proxy.tokens.pieces import PIECE_CHARS

_LONG_BYTES = 128 * 1024
"""So much of a new history takes some 10 ms, of which counting is the most."""

_STEP_BYTES = 256 * 1024
"""So much of a new history is read in some 2 ms."""


async def read(
    shared: Shared, exchange: Exchange, dialect: Dialect, headers: dict[str, str], raw: bytes
) -> Received | None:
    """The request as a conversation; None when it is not ours to read. Raises BodyTooLarge."""
    try:
        if len(raw) < _LONG_BYTES:
            return _received(shared, exchange, dialect, headers, exchange.decode(raw))
        await shared.pace.turn()
        body = exchange.decode(raw)
        for beginning in beginnings(dialect.name, dialect.history_field, body, shared.recall, _STEP_BYTES):
            if dialect.view(exchange.route.rest_path, headers, beginning, shared.recall) is None:
                break
            await shared.pace.turn()
        return _received(shared, exchange, dialect, headers, body)
    except BodyTooLarge:
        raise
    except ProxyError:
        # An encoding that we cannot read is the upstream's business.
        return None
    except Exception as error:  # noqa: BLE001  a reader that trips must not break the call
        shared.watch.failed("receive", error)
        return None


async def weigh_all(shared: Shared, received: Received, scale: Scale, policy: Policy) -> None:
    """Count what is new in it before its weight is asked for, where that is more than is counted at one go.

    Of a long history that is new, names and lines are looked at as well: much of it may be pruned at once.
    """
    view = received.view
    known = known_weights(view, scale)
    if known and len(view.body) - view.spans[known - 1][1] <= PIECE_CHARS:
        # As of a smaller body.
        return
    if known or len(view.body) < _LONG_BYTES:
        await warm(scale, received.conversation, known)
        return
    async with shared.lane:
        await warm(scale, received.conversation)
        if policy.mode != "off":
            await _looked_through(received, policy)


async def _looked_through(received: Received, policy: Policy) -> None:
    """What deciding remembers of each message, ahead of it."""
    messages, passages = received.conversation.messages, passages_in(received.view)
    asked = after_last_assistant(messages) if policy.arrive.enabled and policy.arrive.repeats else 0
    pending = 0
    for index, message in enumerate(messages):
        if policy.prune.keep_share:
            read_names((message,))
        if index < asked:
            passages.catch_up(messages, received.keys, index + 1)
        pending += sum(map(len, texts_of(message)))
        if pending > PIECE_CHARS:
            pending = 0
            await asyncio.sleep(0)


def _received(
    shared: Shared, exchange: Exchange, dialect: Dialect, headers: dict[str, str], body: bytes
) -> Received | None:
    caller = exchange.admitted.caller()
    return receive(dialect, exchange.route.rest_path, headers, body, caller=caller, recall=shared.recall)
