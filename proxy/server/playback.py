"""`pruning-proxy replay`: reads transcripts from disk and tells what the profiles would have saved on them."""

import argparse
import gzip
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from proxy.compaction.policy import PRESETS as COMPACT
from proxy.conversation.model import Conversation
from proxy.errors import ProxyError
from proxy.exchange.quoting import regrets
from proxy.exchange.rehearsal import rehearse, script_of, totals
from proxy.exchange.transcripts import conversations
from proxy.pricing.prices import habit_for, price_for
from proxy.pruning.policy import PRESETS
from proxy.reports.replay import Replayed, replay_rows, replay_text
from proxy.reports.words import counted
from proxy.server.policies import prices_of
from proxy.server.tokenizers import counter, tokenizer_for
from proxy.tokens.context import reserve_tokens
from proxy.tokens.estimate import Memo, Scale
from proxy.tokens.windows import limits_for

_SUFFIXES: Final = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_GZIP: Final = b"\x1f\x8b"
_UNKNOWN_WINDOW: Final = 200_000
_NARROW: Final = 80
_WIDE: Final = 120
_READS: Final = (
    "replay reads OpenAI, Anthropic and Gemini request bodies, lists of messages, and the session files of Claude Code,"
    " Codex and Gemini CLI, and what `opencode export` writes"
)
_MEMO = Memo(512 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that may hold conversations."""

    path: Path
    name: str
    """How its conversations are called: the path inside the folder that was given, without suffixes."""
    size_bytes: int
    asked_for: bool
    """Named on the command line, not found in a folder."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `replay`."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="transcripts (JSON or JSONL, gzip or plain) or folders of them",
    )
    parser.add_argument("--profile", choices=tuple(PRESETS), help="only this profile (default: each)")
    parser.add_argument(
        "--model", metavar="NAME", default="", help="whose prices and window (default: the transcript's)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per conversation and profile")


class _Watch:
    """How far all files together are, drawn on a terminal's standard error, and what is to be said about single ones."""

    def __init__(self, found: list[File]) -> None:
        console = Console(stderr=True, highlight=False)
        self._files, self._turns, self._strangers = 0, 0, 0
        self._of = len(found)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        # Time left goes by bytes: a session of a day takes longer than a hundred side calls.
        self._task = self._progress.add_task(self._state(), total=sum(file.size_bytes for file in found))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, size_bytes: float, *, turns: int) -> None:
        self._turns += turns
        self._progress.update(self._task, advance=size_bytes, description=self._state())

    def file_done(self) -> None:
        self._files += 1
        self._progress.update(self._task, description=self._state())

    def nothing_in(self, file: File) -> None:
        """Folders hold many other files: those are only counted."""
        if file.asked_for:
            self.say(f"{file.path}: no conversation in it that replay understands")
        else:
            self._strangers += 1
        self._progress.update(self._task, advance=file.size_bytes)

    def say(self, text: str) -> None:
        self._progress.console.print(f"pruning-proxy: {text}", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Say how many files of folders were none of ours."""
        if self._strangers:
            self.say(f"{self._strangers:,} of {self._of:,} files hold no conversation that replay understands")

    def _state(self) -> str:
        return f"{self._files:,} of {self._of:,} files, {counted(self._turns, 'turn')}"


def run(options: argparse.Namespace) -> int:
    """Replay every conversation under each profile; 0 when at least one was read."""
    found = list(_files(options.files))
    rows: list[Replayed] = []
    with _Watch(found) as watch:
        for file in found:
            rows += _of_file(file, options, watch)
        watch.close()
    if not rows:
        raise ProxyError(f"no conversation found; {_READS}")
    if options.json:
        print(msgspec.json.encode(replay_rows(rows)).decode())
    else:
        print(replay_text(rows, min(_WIDE, shutil.get_terminal_size((_NARROW, 0)).columns)))
    return 0


def _of_file(file: File, options: argparse.Namespace, watch: _Watch) -> list[Replayed]:
    """What the file's conversations come to; one that cannot be read is said to be so, and gives nothing."""
    profiles = [options.profile] if options.profile else list(PRESETS)
    rows: list[Replayed] = []
    try:
        spoken = conversations(_text_of(file.path), options.model)
        for number, conversation in enumerate(spoken, start=1):
            name = file.name if len(spoken) == 1 else f"{file.name}#{number}"
            rows += [replayed(name, conversation, profile) for profile in profiles]
            watch.advance(file.size_bytes / len(spoken), turns=rows[-1].calls)
        if not spoken:
            watch.nothing_in(file)
    except OSError as error:
        watch.say(f"{file.path}: cannot be read: {error.strerror or error}")
    except Exception as error:  # noqa: BLE001  one odd file must not keep the others from being read
        watch.say(f"{file.path}: cannot be replayed ({type(error).__name__})")
    watch.file_done()
    return rows


def replayed(name: str, conversation: Conversation, profile: str) -> Replayed:
    """One conversation under one profile."""
    model = conversation.model
    encoding = tokenizer_for(model)
    scale = Scale(encoding=encoding, count=counter(encoding), dialect=conversation.dialect, model=model, memo=_MEMO)
    prices, price = prices_of(habit_for(model)), price_for(model)
    longest, reserve, room = _room(model, conversation.max_output)
    arriving, pruning = PRESETS[profile]
    script = script_of(conversation, scale)
    steps = list(
        rehearse(
            script,
            arriving,
            pruning,
            prices=prices,
            window=room,
            reserve=reserve,
            count=scale.weigh_text,
            breakpoints=prices is not None and prices.breakpoints,
            compacting=COMPACT[profile],
        )
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
        regrets=regrets(script, steps),
        direct_over=sum(step.direct > longest for step in steps),
        sent_over=sum(step.sent > longest for step in steps),
        input_price=None if price is None else price.rates.input,
    )


def _room(model: str, max_output: int | None) -> tuple[int, int, int]:
    """Tokens: the longest input that the provider takes, the answer's reserve, and what both may fill together."""
    limits = limits_for(model)
    window = limits.window or _UNKNOWN_WINDOW
    longest = window if limits.max_input is None else min(window, limits.max_input)
    reserve = reserve_tokens(max_output, limits.max_output, window)
    return longest, reserve, min(window, longest + reserve)


def _files(given: list[Path]) -> Iterator[File]:
    """The files themselves, and what transcripts may be in folders and the folders inside them."""
    for path in given:
        if not path.is_dir():
            yield _file(path, path.name, asked_for=True)
            continue
        for inner in sorted(path.rglob("*")):
            if inner.name.endswith(_SUFFIXES) and inner.is_file():
                yield _file(inner, inner.relative_to(path).as_posix(), asked_for=False)


def _file(path: Path, name: str, *, asked_for: bool) -> File:
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    size_bytes = path.stat().st_size if path.is_file() else 0
    return File(path=path, name=name.removesuffix(suffix), size_bytes=size_bytes, asked_for=asked_for)


def _text_of(path: Path) -> bytes:
    """The file's bytes, unpacked. Raises OSError, or what else gzip raises where it is cut off or damaged."""
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(_GZIP) else raw
