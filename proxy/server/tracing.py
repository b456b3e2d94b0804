"""One OpenTelemetry span per modelled call, sent by OTLP over HTTP to a collector.

Imported only when `log.otlp_endpoint` is set, since it needs the extra `otel`. Names are those of the GenAI semantic
conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/, development status), ours stand under
`pruning_proxy.`. Numbers, names and outcomes only: neither content nor credentials are in a turn's row. The SDK itself
honours its standard variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_…).
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

import structlog
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode

from proxy import __version__
from proxy.ledger.records import Turn

Value = str | int | float

CLOSE_S = 3.0
"""How long the end of the process waits for the last batch."""
EXPORT_S = 5.0
"""How long one batch may take, its retries included."""
_NS = 1_000_000_000

PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Built-in upstreams that the conventions' `gen_ai.provider.name` calls otherwise; all others keep their name."""

log = structlog.get_logger("proxy")


class Tracing:
    """Makes spans of settled turns. Exporting happens in a thread of its own and never holds up a call."""

    def __init__(self, exporter: SpanExporter, clock: Callable[[], float]) -> None:
        # Its complaints quote addresses and answers; ours are structured (see `_Told`).
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
        ours = Resource({"service.name": "pruning-proxy", "service.version": __version__})
        self._provider = TracerProvider(
            # What the operator says in OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES wins.
            resource=ours.merge(OTELResourceDetector().detect()),
            # At exit it would wait half a minute for a collector that is not there; `aclose` waits less.
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(_Told(exporter)))
        self._tracer = self._provider.get_tracer("pruning_proxy", __version__)
        self._clock = clock

    @classmethod
    def to(cls, endpoint: str, clock: Callable[[], float]) -> "Tracing":
        """Send to a collector; `endpoint` is its base address, before `/v1/traces`."""
        return cls(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=EXPORT_S), clock)

    def take(self, turn: Turn) -> None:
        """A call has ended just now: its span, from its start until now."""
        span = self._tracer.start_span(
            f"chat {turn.model}",
            # A root: no other library's current span is this call's parent.
            context=Context(),
            kind=SpanKind.CLIENT,
            attributes=attributes_of(turn),
            start_time=int(turn.at * _NS),
        )
        if is_failure(turn):
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=int(max(turn.at, self._clock()) * _NS))

    async def aclose(self) -> None:
        """Send what is left, for `CLOSE_S` at most."""
        # A daemon, unlike the loop's own threads: a collector that does not answer cannot hold up the process's end.
        closing = threading.Thread(target=self._provider.shutdown, name="tracing-close", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_S)


def is_failure(turn: Turn) -> bool:
    """Whether the upstream failed the call: an error, or a stream that broke off. A client that left is no failure."""
    return turn.outcome in ("error", "truncated")


def attributes_of(turn: Turn) -> dict[str, Value]:
    """A turn as span attributes; what was not reported is left out."""
    usage = turn.usage
    known: dict[str, Value | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDERS.get(turn.upstream, turn.upstream),
        "gen_ai.request.model": turn.model,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "error.type": (turn.error_type or str(turn.status)) if is_failure(turn) else None,
        "pruning_proxy.session": turn.session,
        "pruning_proxy.turn": turn.turn,
        "pruning_proxy.purpose": turn.purpose,
        "pruning_proxy.basis": turn.basis,
        "pruning_proxy.estimated_tokens": turn.estimated,
        "pruning_proxy.error_percent": turn.error_percent,
        "pruning_proxy.removed_tokens": turn.removed_tokens,
        "pruning_proxy.would_remove_tokens": turn.would_remove_tokens,
        "pruning_proxy.outcome": turn.outcome,
        "pruning_proxy.overhead_ms": turn.overhead_ms,
    }
    return {name: value for name, value in known.items() if value is not None}


class _Told(SpanExporter):
    """An exporter whose failing and recovering is one log event each."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            log.warning("trace_export_failed", spans=len(spans))
        elif self._fails and not fails:
            log.info("trace_export_recovered", spans=len(spans))
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
