"""The tokenizers: the only module that imports tiktoken or bpe-openai, and nothing before a text is counted.

Two engines count alike (a test says so over real sessions). Measured on 1.9 MB of code, logs and JSON, o200k_base:

                                            load      memory    counting       worst 5 MB    releases the GIL
    bpe-openai's binding                    55 ms     35 MB     34–49 ms/MB    < 0.4 s       no
    tiktoken with the bundled rank files    490 ms    74 MB     92 ms/MB       seconds       yes

So the binding counts, tiktoken stands in where the binding has no wheel, and a rule of thumb where both fail. The binding's
own package loads all its vocabularies in Python on import (0.7 s, 66 MB more), so its extension module is loaded alone.

Looked at and not taken, since a call's share of counting is a tenth (2026-11; 1.5 million tokens counted alike by all):
toktok-rs 0.3 counts new text in a third of the time, but holds 25 MB more, takes 0.4 s longer to load and is two months
old; quicktok 0.4 is much the same at three quarters of that speed; splintr-rs 0.22 gains only on words that it has seen, keeps
long pieces for good (450 MB after 5 MB of one letter) and takes 2 s for 5 MB of spaces; kitoken and riptoken are no faster.

Since the binding keeps the GIL, a thread would not help the event loop: long texts are counted in pieces of some
milliseconds, cut where no token crosses, and `warm` gives the loop a turn between pieces.
"""

import asyncio
import ctypes
import gzip
import importlib.machinery
import importlib.util
from base64 import b64decode
from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Final

from proxy.conversation.edit import well_formed
from proxy.conversation.model import Conversation
from proxy.tokens.estimate import Memo, Scale, rule_of_thumb, texts_of
from proxy.tokens.pieces import PIECE_CHARS, pieces

DEFAULT_ENCODING: Final = "o200k_base"
RULE: Final = "characters"
"""Name of the rule of thumb, where one wishes for it."""
ENCODINGS: Final = ("o200k_base", "cl100k_base", RULE)

_MADV_DONTNEED: Final = 4
"""linux/mman.h"""

_PATTERNS: Final = {
    # tiktoken_ext/openai_public.py (tiktoken 0.14, MIT).
    "cl100k_base": (
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"""
        r"""| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    ),
    "o200k_base": (
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
        r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
        r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
    ),
}


def tokenizer_for(model: str, wish: str = "auto") -> str:
    """Name of the encoding to count with: the wish where it names one, else by model, o200k_base for strangers."""
    if wish in ENCODINGS:
        return wish
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    # gpt-4o, gpt-4.1 and gpt-4.5 are o200k_base: tiktoken/model.py (0.14).
    old = name == "gpt-4" or name.startswith(("gpt-4-", "gpt-3.5", "gpt-35"))
    return "cl100k_base" if old else DEFAULT_ENCODING


def is_known_tokenizer(model: str) -> bool:
    """Whether a bundled encoding is the model's own, so that text counts are exact."""
    name = model.lower().rpartition("/")[2].removeprefix("ft:")
    return name.startswith(("gpt-", "chatgpt-", "codex", "o1", "o3", "o4"))


@lru_cache(maxsize=8)
def counter(name: str) -> "Counter":
    """The counter of this encoding; loads its vocabulary at the first text, one for the process."""
    return Counter(name)


class Counter:
    """Counts tokens of texts in one encoding. Never raises; special tokens are text."""

    def __init__(self, name: str, engine: Callable[[str], int] | None = None) -> None:
        self.name = name
        self._engine = engine
        self._warmed: dict[int, tuple[str, int]] = {}
        """Counts of long texts by identity: hashing 15 MB would hold the loop as long as counting some of it."""
        self.failures = 0
        """Pieces that the engine refused and the rule of thumb counted."""

    def __call__(self, text: str) -> int:
        """Tokens of the text."""
        if len(text) <= PIECE_CHARS:
            return self._piece(text)
        warmed = self._warmed.get(id(text))
        if warmed is not None and warmed[0] is text:
            return warmed[1]
        return sum(self._piece(piece) for piece in pieces(text))

    async def warm(self, text: str) -> None:
        """Count a long text with a turn of the event loop between its pieces; remembered until `forget`."""
        total = 0
        for piece in pieces(text):
            total += self._piece(piece)
            await asyncio.sleep(0)
        self._warmed[id(text)] = (text, total)

    def forget(self, text: str) -> None:
        """Drop what `warm` remembered of this very text, once its message is weighed."""
        self._warmed.pop(id(text), None)

    def _piece(self, text: str) -> int:
        if self._engine is None:
            self._engine = load(self.name)
        try:
            return self._engine(text)
        except UnicodeEncodeError:
            # Lone surrogates are legal JSON; the providers read them as the replacement character.
            return self._piece(well_formed(text))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - a panic in Rust (pyo3 PanicException) is no Exception
            self.failures += 1
            return rule_of_thumb(text)


class Scales:
    """The scales of a process, all with one memo; few encodings, dialects and models are in use at a time."""

    def __init__(self) -> None:
        self._memo = Memo()
        self.get = lru_cache(maxsize=1024)(self._made)

    def _made(self, encoding: str, dialect: str, model: str) -> Scale:
        return Scale(encoding=encoding, count=counter(encoding), dialect=dialect, model=model, memo=self._memo)


async def warm(scale: Scale, conversation: Conversation, known: int = 0) -> None:
    """Weigh everything of a request that was not weighed before, never holding the loop for more than about 5 ms.

    `known`: number of leading messages whose weights need not be asked for.
    """
    pending = 0
    for message in (*conversation.system, *conversation.messages[known:]):
        if scale.is_known(message):
            continue
        texts = list(texts_of(message))
        await _warm_long(scale, texts)
        scale.weigh(message)
        _forget_long(scale, texts)
        pending += sum(len(text) for text in texts if len(text) <= PIECE_CHARS)
        if pending > PIECE_CHARS:
            pending = 0
            await asyncio.sleep(0)
    if not scale.tools_known(conversation.tools):
        texts = [conversation.tools.text]
        await _warm_long(scale, texts)
        scale.weigh_tools(conversation.tools)
        _forget_long(scale, texts)


async def _warm_long(scale: Scale, texts: Iterable[str]) -> None:
    for text in texts:
        if len(text) > PIECE_CHARS and isinstance(scale.count, Counter):
            await scale.count.warm(text)


def _forget_long(scale: Scale, texts: Iterable[str]) -> None:
    if isinstance(scale.count, Counter):
        for text in texts:
            scale.count.forget(text)


def load(name: str) -> Callable[[str], int]:
    """The fastest engine for an encoding that works here; the rule of thumb when none does."""
    if name == RULE:
        return rule_of_thumb
    for engine in (binding, reference):
        try:
            return engine(name)
        except Exception:  # noqa: BLE001, S112 - a missing wheel, a broken file: the next engine
            continue
    return rule_of_thumb


def binding(name: str) -> Callable[[str], int]:
    """bpe-openai's extension module, without its package; raises ImportError where it is not installed."""
    package = importlib.util.find_spec("bpe_openai")
    folders = package.submodule_search_locations if package else None
    if not folders:
        raise ImportError("bpe_openai is not installed")
    found = importlib.machinery.PathFinder.find_spec("_bindings", list(folders))
    if found is None or found.origin is None:
        raise ImportError("bpe_openai has no extension module")
    spec = importlib.util.spec_from_file_location("bpe_openai._bindings", found.origin)
    if spec is None or spec.loader is None:
        raise ImportError("bpe_openai has no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count: Callable[[str], int] = module.tokenizer_for_encoding(name).count
    count("")
    _give_back(found.origin)
    return count


def _give_back(module: str) -> None:
    """Let go of the stored vocabularies that loading has read: 33 MB of the process's memory, 66 MB become 35.

    They are read-only pages of the extension's file, the segment that begins at its first byte; whatever is needed again
    is read again from the page cache. Linux only, and never necessary.
    """
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
        ranges = [
            line.split()[0] for line in lines if line.endswith(module) and line.split()[1:3] == ["r--p", "00000000"]
        ]
        for start, end in (span.split("-") for span in ranges):
            at, length = int(start, 16), int(end, 16) - int(start, 16)
            ctypes.CDLL(None).madvise(ctypes.c_void_p(at), ctypes.c_size_t(length), _MADV_DONTNEED)
    except (OSError, ValueError, AttributeError):
        return


def reference(name: str) -> Callable[[str], int]:
    """What tiktoken counts with the bundled rank file; no network, no cache folder."""
    import tiktoken  # noqa: PLC0415 - only where the binding is missing; 0.5 s

    packed = resources.files("proxy.server").joinpath(f"encodings/{name}.tiktoken.gz").read_bytes()
    ranks = {
        b64decode(token): int(rank) for token, rank in (line.split() for line in gzip.decompress(packed).splitlines())
    }
    encoding = tiktoken.Encoding(
        name=name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={}, explicit_n_vocab=None
    )
    return lambda text: len(encoding.encode_ordinary(text))
