"""One modelled call on its way, and what outlives it."""

import asyncio
from dataclasses import dataclass
from typing import cast

import msgspec

from proxy.conversation.edit import Summarise
from proxy.conversation.recall import Recall
from proxy.dialects.base import Dialect, Reader
from proxy.exchange.policy import Policy
from proxy.exchange.ready import Ready
from proxy.exchange.receive import Memory, Received
from proxy.ledger.records import Queued
from proxy.ledger.store import Ledger
from proxy.server.board import Board
from proxy.server.exact import Exact
from proxy.server.habits import Habits
from proxy.server.learning import Estimates
from proxy.server.lifetimes import Lifetimes
from proxy.server.newcomers import Newcomers
from proxy.server.pace import Pace
from proxy.server.policies import Known, Policies
from proxy.server.relay import Exchange
from proxy.server.summarizer import Summarizer
from proxy.server.tokenizers import Scales
from proxy.server.watch import Watch
from proxy.tokens.estimate import Scale
from proxy.tokens.learn import Learned


@dataclass(slots=True, kw_only=True)
class Shared:
    """What all calls of a process share."""

    ledger: Ledger
    board: Board
    """The mode, which may be changed while running, and messages that wait for a conversation."""
    watch: Watch
    policies: Policies
    estimates: Estimates
    habits: Habits
    lifetimes: Lifetimes
    summarizer: Summarizer
    newcomers: Newcomers
    exact: Exact
    recall: Recall
    scales: Scales
    pace: Pace
    lane: asyncio.Lock
    """Held while a long history that is new is counted."""


class Call(msgspec.Struct, kw_only=True, eq=False):
    """One modelled call."""

    exchange: Exchange
    dialect: Dialect
    raw: bytes
    """The body as it came, encodings and all."""
    received: Received
    memory: Memory
    known: Known
    policy: Policy
    scale: Scale
    learned: Learned
    started: float
    """`time.perf_counter` when the body was whole."""
    queued: tuple[Queued, ...] = ()
    """Messages that waited for this conversation when the call came; once it is decided, those of them that it says."""
    ready: Ready = cast("Ready", None)
    """None as long as it is not predicted, which only `decide` and `Ahead` see."""
    counts_only: bool = False
    """The request asks for a count: it gets the plan, and is no turn."""
    reader: Reader | None = None
    status: int = 0
    """Of the upstream's answer; 0 until one came."""
    overhead_ms: float = 0.0
    upstream_ms: float = 0.0
    """From sending to the head of the answer; of the last try."""
    failed_open: str = ""
    exact: int | None = None
    """Input tokens by the provider's count endpoint, where they were decided by."""
    exact_ms: float = 0.0
    """Wait for that endpoint."""
    summary: Summarise | None = None
    """Decided for this call; stands in every body that is prepared for it."""
    later: Received | None = None
    """The request, for a summary that is begun once the answer is out."""
    waited: bool = False
    """The client waited for a summary."""
