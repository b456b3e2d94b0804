"""The log: one `context_estimate` event per call, one event per change of state. Content and credentials never enter."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO, cast

import msgspec
import orjson
import structlog

from proxy.ledger.records import Turn
from proxy.server.outlet import Outlet
from proxy.server.spoken import spoken
from proxy.tokens.context import error_percent

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_CONSOLE = structlog.dev.ConsoleRenderer(colors=False, sort_keys=False)


class _Loggers:
    """Makes loggers that all write to one outlet."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    def __call__(self, *_names: object) -> structlog.WriteLogger:
        """See structlog."""
        return structlog.WriteLogger(cast("TextIO", self.outlet))


def outlet() -> Outlet | None:
    """Where the log goes, once it is configured."""
    loggers = structlog.get_config()["logger_factory"]
    return loggers.outlet if isinstance(loggers, _Loggers) else None


def configure(*, form: str, level: str, for_good: bool = False) -> None:
    """Set up structlog for the process. `form`: auto | json | console; `level`: the least that is written. To standard error.

    `for_good`: loggers are bound once and cannot be configured again; 5 µs less for every event.
    """
    shared: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    for_people = form == "console" or (form == "auto" and sys.stderr.isatty())
    clock = structlog.processors.TimeStamper(fmt="%H:%M:%S" if for_people else "iso", utc=not for_people)
    json = _as_json_from_info if _LEVELS[level] <= _LEVELS["info"] else _as_json
    structlog.configure(
        processors=[*shared, clock, *([_spoken, _without_nothing, _CONSOLE] if for_people else [json])],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=_Loggers(Outlet(sys.stderr)),
        cache_logger_on_first_use=for_good,
    )


def _spoken(_logger: Any, _method: str, event: Any) -> Any:
    """Of the thirty fields of a call people get a line of the few that they look for."""
    if event["event"] != "context_estimate":
        return event
    return {"timestamp": event["timestamp"], "level": event["level"], "event": spoken(event)}


def _without_nothing(_logger: Any, _method: str, event: Any) -> Any:
    """What people read has no fields that say nothing."""
    return {name: value for name, value in event.items() if value not in (None, {})}


def _as_json(_logger: Any, _method: str, event: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def _as_json_from_info(logger: Any, method: str, event: Any) -> str:
    """The same under another name: where it renders, nothing but JSON comes out, and calls are not below the level."""
    return _as_json(logger, method, event)


class _Line(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A `context_estimate`, in the order of its line: names are a contract."""

    session: str
    turn: int
    upstream: str
    model: str
    dialect: str
    basis: str
    purpose: str
    estimated: int
    actual: int | None
    error: int | None
    error_percent: float | None
    learned_from: int
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    removed_tokens: int = 0
    would_remove_tokens: int = 0
    edits: dict[str, int] = {}
    new_edits: dict[str, int] = {}
    skipped: str | None = None
    outcome: str = ""
    status: int = 0
    error_type: str | None = None
    error_code: int | str | None = None
    tool_calls: int = 0
    source: str = ""
    exact: int | None = None
    exact_ms: float | None = None
    failed_open: str | None = None
    overhead_ms: float = 0.0
    event: str = "context_estimate"
    """This and what follows every event has."""
    level: str = "info"
    timestamp: datetime | None


_FIELDS = _Line.__struct_fields__[: _Line.__struct_fields__.index("event")]
_encoder = msgspec.json.Encoder()


def say_calls(turns: Sequence[Turn]) -> None:
    """Log `context_estimate` of each. Once a call, so it goes a shorter way where that gives the same line: a fifth of the cost."""
    config = structlog.get_config()
    loggers = config["logger_factory"]
    if not isinstance(loggers, _Loggers) or config["processors"][-1] is not _as_json_from_info:
        for turn in turns:
            structlog.get_logger("proxy").info("context_estimate", **fields_of(turn))
        return
    now = datetime.now(UTC)
    loggers.outlet.put(_encoder.encode_lines([_line_of(turn, now) for turn in turns]))


def fields_of(turn: Turn) -> dict[str, Any]:
    """The fields of `context_estimate`, without what every event has."""
    fields = msgspec.structs.asdict(_line_of(turn))
    return {name: fields[name] for name in _FIELDS}


# A struct, since a dict of so many fields takes twice as long; in steps, as in exchange.settle.
def _line_of(turn: Turn, at: datetime | None = None) -> _Line:
    usage, actual = turn.usage, turn.comparable
    percent = error_percent(turn.estimated, actual)
    line = _Line(
        session=turn.session,
        turn=turn.turn,
        upstream=turn.upstream,
        model=turn.model,
        dialect=turn.dialect,
        basis=turn.basis,
        purpose=turn.purpose,
        estimated=turn.estimated,
        actual=usage.input_tokens or None,
        error=None if actual is None else turn.estimated - actual,
        error_percent=None if percent is None else round(percent, 3),
        learned_from=turn.learned_from,
        timestamp=at,
    )
    line = msgspec.structs.replace(
        line,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        removed_tokens=turn.removed_tokens,
        would_remove_tokens=turn.would_remove_tokens,
        edits=turn.edits,
        new_edits=turn.new_edits,
        skipped=turn.skipped or None,
        outcome=turn.outcome,
        status=turn.status,
        tool_calls=turn.tool_calls,
        source="provider" if usage.input_tokens or usage.output_tokens else "none",
        overhead_ms=turn.overhead_ms,
    )
    is_plain = (
        turn.error_code is None and turn.exact is None and not (turn.error_type or turn.exact_ms or turn.failed_open)
    )
    return line if is_plain else _with_rare(line, turn)


def _with_rare(line: _Line, turn: Turn) -> _Line:
    """The line with what few calls have."""
    return msgspec.structs.replace(
        line,
        error_type=turn.error_type or None,
        error_code=turn.error_code,
        exact=turn.exact,
        exact_ms=turn.exact_ms or None,
        failed_open=turn.failed_open or None,
    )
