"""The command line. Every failure is one line on standard error and exit code 2, never a traceback."""

import argparse
import codecs
import errno
import io
import json
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from proxy import __version__
from proxy.errors import ProxyError, SettingsError
from proxy.settings.load import Loaded, effective, load_with_origins
from proxy.settings.sources import Where, dotted
from proxy.settings.values import Settings, Upstream

Command = tuple[str, Callable[[argparse.Namespace], int], str, Callable[[argparse.ArgumentParser], None]]

_PLAIN = {"→": ">", "…": ".", "≈": "~", "×": "x", "−": "-", "–": "-", "·": ".", "█": "#", "░": "-"}
"""What stands for our own characters on a terminal that does not know them; as wide as they are."""

FAILED = 2
INTERRUPTED = 130

_ABOUT = """\
A streaming reverse proxy between LLM clients and providers: it measures each conversation, prunes old tool results when
that pays, compacts before the window is full, and streams answers through untouched. Change one base URL, nothing else."""


class _Parser(argparse.ArgumentParser):
    """As argparse, but what is wrong is said in one line."""

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message}; see `{self.prog} --help`")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 2 for anything that is wrong, or what the command says."""
    _take_every_character()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = parser_of(next((word for word in arguments if not word.startswith("-")), ""))
    try:
        options = parser.parse_args(arguments)
        if options.run is None:
            parser.print_help(sys.stderr)
            return FAILED
        code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has left: say nothing, and let nothing be flushed to it at exit.
        sys.stdout = None
        return 0
    except (ProxyError, OSError) as error:
        print(f"pruning-proxy: {' '.join(_said(error).split())}", file=sys.stderr)
        return FAILED
    return code


def _said(error: Exception) -> str:
    """What is wrong, and with which file where it is one: without the system's own number."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _take_every_character() -> None:
    """Whatever the terminal's encoding is, a character that it lacks ends no command: it is written as another, or as `?`."""
    codecs.register_error("pruning-proxy", _plain)
    for stream in (sys.stdout, sys.stderr):
        # Another object may stand there in its place, or none.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="pruning-proxy")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(char, "?") for char in error.object[error.start : error.end]), error.end


def parser_of(chosen: str) -> argparse.ArgumentParser:
    """The parser, with the flags of the chosen command; other commands' libraries are not even imported."""
    parser = _Parser(prog="pruning-proxy", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for name, run, text, add_flags in COMMANDS:
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if name == chosen:
            add_flags(command)
        command.set_defaults(run=run)
    return parser


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that name settings; their values are read and checked where all settings are."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="configuration file (TOML)")
    parser.add_argument("--host", metavar="ADDRESS", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", metavar="N", help="port to listen on (default 8787; 0 takes a free one)")
    parser.add_argument(
        "--upstream",
        metavar="NAME=URL",
        action="append",
        default=[],
        help="a provider's address, the part before /v1 or /v1beta; may be repeated",
    )
    parser.add_argument("--store", metavar="URL", help="sqlite:///PATH, redis://HOST:PORT/DB or memory://")
    parser.add_argument("--mode", metavar="MODE", help="off, observe or prune (default prune)")
    parser.add_argument(
        "--log-format", metavar="FORMAT", help="json or console (default: console in a terminal, json elsewhere)"
    )
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (default info)")
    parser.add_argument("--workers", metavar="N", help="processes that share the port (default 1)")


def settings_of(options: argparse.Namespace) -> Loaded:
    """The settings in force, given parsed flags of `add_settings_flags`."""
    flags: dict[Where, Any] = {
        ("server", "host"): options.host,
        ("server", "port"): options.port,
        ("server", "workers"): options.workers,
        ("store", "url"): options.store,
        ("mode",): options.mode,
        ("log", "format"): options.log_format,
        ("log", "level"): options.log_level,
    }
    for pair in options.upstream:
        name, separator, url = pair.partition("=")
        if not separator or not name:
            raise SettingsError(f"--upstream: expected NAME=URL, got {pair.partition('?')[0]!r}")
        flags["upstreams", name, "base_url"] = url
    return load_with_origins(options.config, flags)


def _serve(options: argparse.Namespace) -> int:
    settings = settings_of(options).settings
    # Until the server has its own handler: a signal without one does not even end the first process of a container.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    # Imported here, so that the other commands start without the server's libraries.
    from proxy.server.imports import load_without, uncollected  # noqa: PLC0415

    with uncollected():
        load_without()
        from proxy.server.assembly import serve  # noqa: PLC0415

    try:
        return serve(settings, announce=lambda host, port: print_addresses(settings, root_url(host, port)))
    except socket.gaierror as error:
        raise SettingsError(f"server.host: cannot listen on {settings.server.host!r}: {error.strerror}") from error
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise
        server = settings.server
        text = f"server.host, server.port: cannot listen on {server.host}:{server.port}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            text += "; if it is not this proxy that runs there already, take another one with --port"
        raise SettingsError(text) from error


def print_addresses(settings: Settings, root: str) -> None:
    """Say that the proxy listens at `root`, which base URLs clients take, and where to watch. The log has standard error for itself."""
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    # Compared with, not listened on.
    others = " and all other addresses of this machine" if settings.server.host in ("0.0.0.0", "::") else ""  # noqa: S104
    lines = [f"pruning-proxy {__version__} listens on {bold}{root}{plain}{others} (mode {settings.mode})"]
    lines.append("Base URLs to set:")
    for clients, url, upstream in (
        ("OpenAI clients", f"{root}/v1", "openai"),
        ("Anthropic clients", root, "anthropic"),
        ("Gemini clients", root, "gemini"),
    ):
        lines.append(f"  {clients:<18} {bold}{url:<32}{plain} → {settings.upstreams[upstream].base_url}")
    names = ", ".join(name for name, upstream in settings.upstreams.items() if upstream.base_url)
    lines.append(f"  {'by name':<18} {bold}{root + '/up/NAME':<32}{plain} → {names}")
    lines.append(f"Dashboard: {bold}{root}/_proxy/{plain}")
    print("\n".join(lines), flush=True)


def root_url(host: str, port: int) -> str:
    """The address under which clients on this machine reach a proxy that listens there."""
    # Compared with, not listened on: for "every address" a client needs one of them.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _add_demo_flags(parser: argparse.ArgumentParser) -> None:
    from proxy.demo.show import add_flags  # noqa: PLC0415  as in _serve

    add_flags(parser)


def _demo(options: argparse.Namespace) -> int:
    from proxy.demo.show import run  # noqa: PLC0415  as in _serve

    return run(options)


def _add_replay_flags(parser: argparse.ArgumentParser) -> None:
    from proxy.server.playback import add_flags  # noqa: PLC0415  as in _serve

    add_flags(parser)


def _replay(options: argparse.Namespace) -> int:
    from proxy.server.playback import run  # noqa: PLC0415  as in _serve

    return run(options)


def _report(name: str, text: str) -> Command:
    """The row of a reporting command."""

    def add_flags(parser: argparse.ArgumentParser) -> None:
        from proxy.server import terminal  # noqa: PLC0415  as in _serve

        terminal.add_flags(name, parser)

    def run(options: argparse.Namespace) -> int:
        from proxy.server import terminal  # noqa: PLC0415  as in _serve

        loaded = load_with_origins(options.config, {("store", "url"): options.store})
        return terminal.run(name, options, loaded.settings)

    return name, run, text, add_flags


def _add_check_flags(parser: argparse.ArgumentParser) -> None:
    add_settings_flags(parser)
    parser.add_argument("--json", action="store_true", help="print every setting as one JSON object")
    parser.add_argument("--example", action="store_true", help="print the commented default configuration file")


def _check(options: argparse.Namespace) -> int:
    if options.example:
        print(example_file(), end="")
        return 0
    loaded = settings_of(options)
    if options.json:
        print(json.dumps(effective(loaded.settings), indent=2))
    else:
        print("\n".join(_as_toml(loaded)))
    return 0


def example_file() -> str:
    """The commented default configuration: inside an installed package, or at the top of the repository."""
    installed = resources.files("proxy.settings") / "pruning-proxy.toml"
    if installed.is_file():
        return installed.read_text("utf-8")
    return (Path(__file__).parent.parent / "config" / "pruning-proxy.toml").read_text("utf-8")


def _as_toml(loaded: Loaded) -> list[str]:
    """The effective settings as a configuration file; of upstreams only those with an address, and what is special."""
    lines = ["# valid; settings that are not defaults tell where they come from"]
    tables: list[tuple[Where, dict[str, Any]]] = []
    for name, value in effective(loaded.settings).items():
        if name == "upstreams":
            tables += [
                (("upstreams", upstream), _changed(keys)) for upstream, keys in value.items() if keys["base_url"]
            ]
        elif name == "models":
            tables += [(("models", pattern), keys) for pattern, keys in value.items()]
        elif isinstance(value, dict):
            tables.append(((name,), value))
        else:
            lines.append(_line((name,), value, loaded))
    for where, keys in tables:
        lines += ["", f"[{dotted(where)}]", *(_line((*where, key), value, loaded) for key, value in keys.items())]
    return lines


def _changed(keys: dict[str, Any]) -> dict[str, Any]:
    default = Upstream()
    return {key: value for key, value in keys.items() if key == "base_url" or value != getattr(default, key)}


def _line(where: Where, value: Any, loaded: Loaded) -> str:
    line = f"{where[-1]} = {json.dumps(value, ensure_ascii=False)}"
    return f"{line}  # {loaded.origins[where]}" if where in loaded.origins else line


COMMANDS: tuple[Command, ...] = (
    ("serve", _serve, "start the proxy", add_settings_flags),
    ("demo", _demo, "play a recorded agent session through the proxy, without key or network", _add_demo_flags),
    _report("context", "show what stands in a conversation's context, and what was taken out"),
    _report("accuracy", "show how far estimates were off, by model"),
    _report("savings", "show tokens and money saved, net of cache breaks and summaries"),
    _report("sessions", "list the conversations, newest first"),
    ("replay", _replay, "tell what would have been saved on transcripts of your own, offline", _add_replay_flags),
    ("check", _check, "validate the configuration and print what is in force, secrets masked", _add_check_flags),
)
"""The one table of commands: name, what runs, what it says in the help, its flags."""
