"""The reporting commands: what they take, and how they print."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console, RenderableType

from proxy.errors import SettingsError
from proxy.reports.screens import accuracy_screen, context_screen, edits_screen, savings_screen, sessions_screen
from proxy.server.inquiry import Inquiry
from proxy.settings.values import Settings

_WIDE: Final = 120


def add_flags(command: str, parser: argparse.ArgumentParser) -> None:
    """The flags of one of the commands context, accuracy, savings and sessions."""
    if command == "context":
        said = "its id, or as much of its beginning as no other has (default: the newest one)"
        parser.add_argument("session", metavar="SESSION", nargs="?", default="", help=said)
        parser.add_argument("--edits", action="store_true", help="show each edit instead: why, before and after")
    elif command == "sessions":
        parser.add_argument("--limit", metavar="N", default="20", help="how many, newest first (default 20)")
    else:
        parser.add_argument("--hours", metavar="N", default="0", help="only the last N hours (default: all)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="configuration file (TOML)")
    parser.add_argument("--store", metavar="URL", help="the store to read, instead of the configured one")
    parser.add_argument("--url", metavar="URL", default="", help="ask a running proxy instead, as http://HOST:PORT")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(command: str, options: argparse.Namespace, settings: Settings) -> int:
    """Print the report, and on standard error what is to be known about where it comes from; gives 0. Raises ProxyError."""
    inquiry = Inquiry(settings, options.url)
    found: Any
    shown: RenderableType
    match command:
        case "context" if options.edits:
            found = inquiry.edits(options.session)
            shown = edits_screen(found)
        case "context":
            found = inquiry.context(options.session)
            shown = context_screen(found)
        case "sessions":
            found = inquiry.sessions(int(_number("--limit", options.limit, least=1, most=500)))
            shown = sessions_screen(found)
        case "accuracy":
            found = inquiry.accuracy(_number("--hours", options.hours))
            shown = accuracy_screen(found)
        case _:
            found = inquiry.savings(_number("--hours", options.hours))
            shown = savings_screen(found)
    if inquiry.note:
        sys.stderr.write(f"pruning-proxy: {inquiry.note}\n")
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        _console().print(shown)
    return 0


def _console() -> Console:
    """As wide as the terminal, but not over 120 columns, which are hard to read; 120 where there is none.

    There, `grep` and its kin want a row on one line.
    """
    console = Console(highlight=False)
    console.width = min(console.width, _WIDE) if console.is_terminal else _WIDE
    return console


def _number(flag: str, text: str, *, least: float = 0, most: float = math.inf) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise SettingsError(f"{flag}: expected a number {bounds}, got {text!r}")
    return value
