"""`pruning-proxy replay`: reads transcripts from disk and tells what the profiles would have saved on them."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from proxy.compaction.policy import PRESETS as COMPACT
from proxy.conversation.model import Conversation
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.errors import ProxyError
from proxy.exchange.rehearsal import rehearse, script_of, totals
from proxy.exchange.transcripts import transcripts
from proxy.pricing.prices import habit_for
from proxy.pruning.policy import PRESETS
from proxy.pruning.situation import Prices
from proxy.reports.replay import Replayed, replay_text
from proxy.server.tokenizers import counter, tokenizer_for
from proxy.tokens.context import reserve_tokens
from proxy.tokens.estimate import Memo, Scale
from proxy.tokens.windows import limits_for

_SUFFIXES = (".json", ".jsonl")
_UNKNOWN_WINDOW = 200_000
_MEMO = Memo(1_000_000)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `replay`."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="transcripts, or folders of them")
    parser.add_argument("--profile", choices=tuple(PRESETS), help="only this profile (default: each)")
    parser.add_argument(
        "--model", metavar="NAME", default="", help="whose prices and window (default: the transcript's)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per conversation and profile")


def run(options: argparse.Namespace) -> int:
    """Replay every conversation under each profile; 0 when at least one was read."""
    profiles = [options.profile] if options.profile else list(PRESETS)
    paths = list(_files(options.files))
    rows: list[Replayed] = []
    for number, path in enumerate(paths, start=1):
        if sys.stderr.isatty():
            print(f"\r{number} of {len(paths)}: {path.name[:50]:<50}", end="", file=sys.stderr)
        for name, conversation in conversations(path, options.model):
            rows += [replayed(name, conversation, profile) for profile in profiles]
    if sys.stderr.isatty():
        print("\r" + " " * 72 + "\r", end="", file=sys.stderr)
    if not rows:
        raise ProxyError(
            "no conversation found; replay reads OpenAI, Anthropic and Gemini request bodies, lists of messages, and the "
            "session files of Claude Code and Codex"
        )
    print(msgspec.json.encode(rows).decode() if options.json else replay_text(rows))
    return 0


def conversations(path: Path, model: str = "") -> Iterator[tuple[str, Conversation]]:
    """Name and conversation of each transcript in a file; raises OSError. `model` stands in for the transcript's."""
    found = transcripts(path.read_bytes())
    for number, transcript in enumerate(found, start=1):
        dialect = dialect_for(transcript.path)
        view = dialect.view(transcript.path, {}, transcript.body, Recall()) if dialect is not None else None
        if view is not None and view.conversation.messages:
            conversation = view.conversation
            named = model or transcript.model or conversation.model
            name = path.stem if len(found) == 1 else f"{path.stem}#{number}"
            yield name, msgspec.structs.replace(conversation, model=named)


def replayed(name: str, conversation: Conversation, profile: str) -> Replayed:
    """One conversation under one profile."""
    model = conversation.model
    encoding = tokenizer_for(model)
    scale = Scale(encoding=encoding, count=counter(encoding), dialect=conversation.dialect, model=model, memo=_MEMO)
    habit, limits = habit_for(model), limits_for(model)
    prices = Prices(read=habit.read_ratio, write=habit.write_ratio)
    window = limits.window or _UNKNOWN_WINDOW
    arriving, pruning = PRESETS[profile]
    steps = rehearse(
        script_of(conversation, scale),
        arriving,
        pruning,
        prices=prices,
        window=window,
        reserve=reserve_tokens(conversation.max_output, limits.max_output, window),
        count=scale.weigh_text,
        compacting=COMPACT[profile],
    )
    summed = totals(steps, prices)
    return Replayed(
        name=name,
        model=model,
        profile=profile,
        calls=summed.calls,
        direct_tokens=summed.direct,
        sent_tokens=summed.sent,
        direct_cost=summed.direct_cost,
        cost=summed.cost,
        breaks=summed.breaks,
    )


def _files(given: list[Path]) -> Iterator[Path]:
    """The files themselves, and what transcripts may be in folders."""
    for path in given:
        if path.is_dir():
            yield from sorted(inner for inner in path.rglob("*") if inner.suffix in _SUFFIXES)
        else:
            yield path
