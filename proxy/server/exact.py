"""The provider's own count, asked for where the estimate alone cannot decide (`estimate.exact = "near"`).

At most one question a call, bounded in time, and never fatal: where no usable number comes, the estimate stands. What is
counted is the body as it would go out by the estimate. Where the number leads to another decision, another body goes
out; its size is then the count and what the edits between the two are estimated to change.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog

from proxy.compaction.policy import limit_tokens
from proxy.dialects.counting import count_answer, count_request
from proxy.errors import ProxyError
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import UNDECIDED
from proxy.exchange.ready import Ready
from proxy.server.engines.base import Engine
from proxy.server.policies import DOUBT
from proxy.server.relay import Exchange
from proxy.tokens.learn import Learned, predict, predict_first

WAIT_S = 2.0
"""Longest that a call waits for a count."""
REST_S = 60.0
"""After a question that came to nothing: who is overloaded or slow is not asked at every call."""
MISSING_S = 3600.0
"""After an answer that says that there is no such endpoint."""
_MOST_RESTS = 1024
_MOST_BYTES = 64 * 1024
_ENOUGH: Final = 8
"""Settled calls after which the learned range is believed."""
_FURTHEST: Final = 4
"""Times by which a believable count may differ from the estimate."""
_OK: Final = 200
_NO_ENDPOINT: Final = frozenset({404, 405, 501})

log = structlog.get_logger("proxy")


class Exact:
    """Asks, and remembers who cannot answer."""

    def __init__(self, engine: Engine, noted: Callable[[str], None], *, enabled: bool) -> None:
        """`noted` gets the outcome of each question: used | implausible | failed | timeout | missing | client_closed | internal."""
        self._engine = engine
        self._noted = noted
        self.enabled = enabled
        self._rests: OrderedDict[tuple[str, str, bytes], float] = OrderedDict()
        """Upstream, model, and dialect with caller → until when not to ask: a key may lack the right to."""

    def wanted(self, exchange: Exchange, ready: Ready, policy: Policy, learned: Learned) -> tuple[str, bytes] | None:
        """Path and body of the question that would settle what is to be decided; None where there is nothing to ask."""
        if not self.enabled or policy.mode != "prune" or ready.skipped in UNDECIDED:
            return None
        if not is_near(ready, policy, learned) or self._rests.get(_who(exchange, ready), 0.0) > time.monotonic():
            return None
        return count_request(ready.received.dialect.name, exchange.route.rest_path, ready.body)

    async def count(self, exchange: Exchange, ready: Ready, question: tuple[str, bytes]) -> int | None:
        """The provider's count of what is about to go out; None where no usable number came in time."""
        tokens, outcome = None, "internal"
        try:
            async with asyncio.timeout(WAIT_S):
                tokens, outcome = await self._asked(exchange, ready, *question)
        except TimeoutError:
            outcome = "timeout"
        except ProxyError as error:
            outcome = "failed"
            log.info("exact_count_failed", error=error.kind)
        except asyncio.CancelledError:
            outcome = "client_closed"
            raise
        finally:
            self._note(_who(exchange, ready), outcome)
        return tokens

    async def _asked(self, exchange: Exchange, ready: Ready, path: str, body: bytes) -> tuple[int | None, str]:
        answer = await self._engine.send(exchange.side_request(path, body, ready.header))
        try:
            if answer.status != _OK:
                return None, "missing" if answer.status in _NO_ENDPOINT else "failed"
            raw = bytearray()
            while piece := await answer.read():
                raw += piece
                if len(raw) > _MOST_BYTES:
                    return None, "failed"
        finally:
            await answer.aclose()
        tokens = count_answer(ready.received.dialect.name, bytes(raw))
        if tokens is None:
            return None, "failed"
        if not ready.estimated <= tokens * _FURTHEST or tokens > ready.estimated * _FURTHEST:
            return None, "implausible"
        return tokens, "used"

    def _note(self, who: tuple[str, str, bytes], outcome: str) -> None:
        self._noted(outcome)
        if outcome in ("used", "client_closed"):
            return
        self._rests[who] = time.monotonic() + (MISSING_S if outcome == "missing" else REST_S)
        self._rests.move_to_end(who)
        if len(self._rests) > _MOST_RESTS:
            self._rests.popitem(last=False)


def _who(exchange: Exchange, ready: Ready) -> tuple[str, str, bytes]:
    return exchange.route.upstream_name, ready.received.conversation.model, ready.received.seed


def is_near(ready: Ready, policy: Policy, learned: Learned) -> bool:
    """Whether the limit of compaction, or of the window, lies within what the estimate may be off by."""
    low, high = _expected(ready, policy, learned)
    limits = (limit_tokens(ready.context.usable, policy.compact), ready.context.usable)
    return any(limit is not None and low <= limit < high for limit in limits)


def _expected(ready: Ready, policy: Policy, learned: Learned) -> tuple[float, float]:
    total, anchored = ready.estimated, ready.inputs.last is not None
    # Compaction allows for the same doubt (compaction.policy.stage_of).
    doubted = total if anchored else total * (1 + policy.doubt)
    if len(learned.recent if anchored else learned.recent_first) < _ENOUGH:
        off = DOUBT * (total - ready.known_tokens)
        return total - off, max(total + off, doubted)
    growth = ready.inputs.growth
    predicted = predict(learned, growth) if anchored else predict_first(learned, growth)
    return total + predicted.low - predicted.tokens, max(total + predicted.high - predicted.tokens, doubted)
