"""Five megabytes each of what tokenizers like least; the first two are as long as a known report of one that never ended."""

import base64
import json
from collections.abc import Callable
from random import Random

BYTES = 5_000_000


def _letters(chance: Random, alphabet: str) -> str:
    return "".join(chance.choices(alphabet, k=BYTES // len(alphabet[0].encode())))


def _minified(chance: Random) -> str:
    """JSON as services send it: no white space, short keys, many numbers."""
    rows = [{"id": f"{chance.getrandbits(64):x}", "v": chance.random(), "ok": None} for _ in range(BYTES // 60)]
    return json.dumps(rows, separators=(",", ":"))[:BYTES]


WORST: dict[str, Callable[[Random], str]] = {
    "one letter": lambda chance: "a" * 1_000_000,
    "one sign": lambda chance: "^" * 1_000_000,
    "random letters": lambda chance: _letters(chance, "abcdefghijklmnopqrstuvwxyz"),
    "chinese": lambda chance: _letters(chance, "".join(map(chr, range(0x4E00, 0x9FA5)))),
    "emoji": lambda chance: "😀👍🏽" * (BYTES // 12),
    "base64": lambda chance: base64.b64encode(chance.randbytes(BYTES // 4 * 3)).decode(),
    "minified JSON": _minified,
    "spaces": lambda chance: " " * BYTES,
    "line ends": lambda chance: "\n" * BYTES,
}
