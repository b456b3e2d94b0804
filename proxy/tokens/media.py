"""What an image, sound, film or document costs: by dimensions and model family, never by the length of its base64.

The published rules, checked against recorded usage (50×50, 540×360, 597×566 and 1001×1001 pictures):

    Anthropic   w·h/750 after fitting the long edge to 1,568 px     docs "Vision", 2025; recorded 259 of 276 tokens at 540×360
    OpenAI      tiles: base + per tile of 512 px                    docs "Images and vision", 2025; recorded 210 for gpt-5 at 50×50
                patches of 32 px × a factor, at most 1,536          docs, same page; recorded 502 of 515 for 4.1-nano at 540×360
    Gemini 2.0  258 a tile and an overview, 258 flat when small     docs "Understand token counts", 2025; recorded 7·258
    Gemini 2.5  258 flat                                            recorded
    Gemini 3.x  by media resolution: 280, 560, 1,120                docs "Media resolution", 2025; recorded about 1,100 at 597×566

What nobody can know from the request (a URL, a file id, the length of a film) gets a fixed, bounded figure.
"""

import re
from math import ceil
from typing import Final

from proxy.conversation.model import Media

UNKNOWN_MEDIA_TOKENS: Final = 1000
MOST_MEDIA_TOKENS: Final = 1600
"""Bound for media whose size does not tell its cost."""

_TILES: Final = (
    # model pattern, base, per tile; first match wins.
    (re.compile(r"4o-mini"), 2833, 5667),
    (re.compile(r"computer-use"), 65, 129),
    (re.compile(r"(^|[/-])o[13](-|$)"), 75, 150),
    (re.compile(r"gpt-[5-9]"), 70, 140),
)
_TILE_DEFAULT: Final = (85, 170)
_PATCHES: Final = (
    # gpt-5-mini: the published 1.62 does not fit recorded usage (261 tokens for 204 patches); 1.2 does.
    (re.compile(r"gpt-[5-9][.\d]*-mini"), 1.2),
    (re.compile(r"gpt-[5-9][.\d]*-nano"), 2.46),
    (re.compile(r"4\.1-mini"), 1.62),
    (re.compile(r"4\.1-nano"), 2.46),
    (re.compile(r"o4-mini"), 1.72),
)
_GEMINI_3_IMAGE: Final = {"low": 280, "medium": 560, "high": 1120, "ultra_high": 2240}
_CLAUDE: Final = re.compile(r"claude")
_CLAUDE_LARGE: Final = re.compile(r"claude.*(opus-4[.-]([7-9]|\d\d)|(opus|sonnet|haiku|fable|mythos)-[5-9])")
_GEMINI: Final = re.compile(r"gemini")
_GEMINI_OLD: Final = re.compile(r"gemini-(1|2)")
_GEMINI_FLAT: Final = re.compile(r"gemini-2\.5")
_PIXTRAL: Final = re.compile(r"pixtral|mistral")
_QWEN: Final = re.compile(r"qwen|llama-4")


def media_tokens(media: Media, *, model: str) -> int:
    """Tokens of one medium for this model; at least 1, never from the number of base64 characters."""
    model = model.lower()
    match media.kind:
        case "image":
            return _image(media, model)
        case "audio":
            # 10 tokens a second (OpenAI) to 32 (Gemini) at 8 to 32 kB a second: about one token a kilobyte.
            return _bounded(media.size_bytes / 1000)
        case "video":
            return MOST_MEDIA_TOKENS
        case "file":
            # A PDF page is 258 (Gemini) to 1,600 tokens (text and image) and seldom below 30 kB.
            return _bounded(media.size_bytes / 50)


def _bounded(tokens: float) -> int:
    return min(MOST_MEDIA_TOKENS, max(1, ceil(tokens))) if tokens else UNKNOWN_MEDIA_TOKENS


def _image(media: Media, model: str) -> int:
    if _GEMINI.search(model) and not _GEMINI_OLD.search(model):
        return _GEMINI_3_IMAGE.get(media.detail.lower().removeprefix("media_resolution_"), 1120)
    if media.width is None or media.height is None or media.width < 1 or media.height < 1:
        return UNKNOWN_MEDIA_TOKENS
    width, height = media.width, media.height
    if _CLAUDE.search(model):
        return _by_area(width, height, 2576 if _CLAUDE_LARGE.search(model) else 1568)
    if _GEMINI.search(model):
        return 258 if _GEMINI_FLAT.search(model) else _gemini_tiles(width, height)
    if _PIXTRAL.search(model):
        return _by_patch(width, height, side=16, most=4096)
    if _QWEN.search(model):
        return _by_patch(width, height, side=28, most=MOST_MEDIA_TOKENS)
    return _openai(width, height, media.detail, model)


def _by_area(width: int, height: int, edge: int) -> int:
    scale = min(1.0, edge / max(width, height))
    # The larger edge has a larger cap: 4,784 tokens at 2,576 px, 1,600 at 1,568 px.
    return max(1, min(ceil(width * scale * height * scale / 750), 1600 if edge < 2000 else 4784))


def _gemini_tiles(width: int, height: int) -> int:
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, int(min(width, height) / 1.5)))
    tiles = ceil(width / unit) * ceil(height / unit)
    # Recorded: six tiles and an overview for 540×360.
    return 258 * (min(tiles, 16) + 1)


def _by_patch(width: int, height: int, *, side: int, most: int) -> int:
    return min(most, ceil(width / side) * ceil(height / side))


def _openai(width: int, height: int, detail: str, model: str) -> int:
    for pattern, factor in _PATCHES:
        if pattern.search(model):
            return ceil(_by_patch(width, height, side=32, most=1536) * factor)
    base, tile = next(((low, each) for pattern, low, each in _TILES if pattern.search(model)), _TILE_DEFAULT)
    if detail == "low":
        return base
    fit = min(1.0, 2048 / max(width, height))
    short = min(1.0, 768 / (min(width, height) * fit))
    scale = fit * short
    return base + tile * ceil(width * scale / 512) * ceil(height * scale / 512)
