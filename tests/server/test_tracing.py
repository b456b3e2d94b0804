import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import capture_logs

from proxy.server import assembly, tracing
from proxy.server.assembly import assembled
from proxy.server.tracing import Tracing, attributes_of
from proxy.server.watch import Watch
from proxy.settings.values import Log, Settings, Store, Upstream
from proxy.tokens.usage import Usage
from tests.builders import a_turn, user
from tests.server.house import MODEL, a_provider
from tests.serving import serving

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


async def spans_of(*turns, now=1002.5):
    exporter = InMemorySpanExporter()
    traces = Tracing(exporter, lambda: now)
    for turn in turns:
        traces.take(turn)
    await traces.aclose()
    return exporter.get_finished_spans()


async def test_a_call_is_one_span_from_its_start_to_its_settling():
    (span,) = await spans_of(a_turn(model="gpt-4o", at=1000.0))

    assert (span.name, span.kind) == ("chat gpt-4o", SpanKind.CLIENT)
    assert (span.start_time, span.end_time) == (1_000_000_000_000, 1_002_500_000_000)
    assert span.parent is None
    assert span.status.status_code is StatusCode.UNSET


async def test_a_clock_that_was_set_back_gives_no_negative_duration():
    (span,) = await spans_of(a_turn(at=1000.0), now=900.0)

    assert span.end_time == span.start_time


async def test_a_span_has_the_conventions_attributes_and_ours():
    usage = Usage(input_tokens=80, output_tokens=7, cache_read_tokens=30)
    turn = a_turn(session="s9", turn=3, estimated=100, usage=usage, removed_tokens=50, overhead_ms=1.5)
    (span,) = await spans_of(turn)

    assert dict(span.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 80,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "pruning_proxy.session": "s9",
        "pruning_proxy.turn": 3,
        "pruning_proxy.purpose": "main",
        "pruning_proxy.basis": "anchored",
        "pruning_proxy.estimated_tokens": 100,
        "pruning_proxy.error_percent": 25.0,
        "pruning_proxy.removed_tokens": 50,
        "pruning_proxy.would_remove_tokens": 0,
        "pruning_proxy.outcome": "ok",
        "pruning_proxy.overhead_ms": 1.5,
    }


def test_what_was_not_reported_is_left_out():
    left_out = {name for name in attributes_of(a_turn()) if "usage" in name or "error" in name}

    assert left_out == set()


def test_reported_zeros_stay():
    assert attributes_of(a_turn(usage=Usage(cache_read_tokens=0)))["gen_ai.usage.cache_read.input_tokens"] == 0


@pytest.mark.parametrize(("upstream", "provider"), [("gemini", "gcp.gemini"), ("xai", "x_ai"), ("my-own", "my-own")])
def test_providers_have_the_conventions_names(upstream, provider):
    assert attributes_of(a_turn(upstream=upstream))["gen_ai.provider.name"] == provider


def test_a_summary_call_belongs_to_the_session_that_it_was_made_for():
    attributes = attributes_of(a_turn(session="s4", turn=0, purpose="summary"))

    assert (attributes["pruning_proxy.session"], attributes["pruning_proxy.purpose"]) == ("s4", "summary")


@pytest.mark.parametrize(
    ("outcome", "error_type", "status", "expected"),
    [
        ("error", "rate_limit_error", 429, (StatusCode.ERROR, "rate_limit_error")),
        ("error", "", 503, (StatusCode.ERROR, "503")),
        ("truncated", "", 200, (StatusCode.ERROR, "200")),
        ("client_closed", "", 200, (StatusCode.UNSET, None)),
        ("blocked", "", 200, (StatusCode.UNSET, None)),
    ],
)
async def test_the_upstreams_failures_are_errors(outcome, error_type, status, expected):
    (span,) = await spans_of(a_turn(outcome=outcome, error_type=error_type, status=status))

    assert (span.status.status_code, span.attributes.get("error.type")) == expected
    assert span.status.description is None


async def test_what_people_and_models_wrote_is_in_no_span():
    (span,) = await spans_of(a_turn(label="hush", decisions=("clear hush",), by_tool={"hush": 1}, warning="hush"))

    assert "hush" not in span.to_json()


async def test_the_operators_name_for_the_service_wins(monkeypatch):
    (plain,) = await spans_of(a_turn())
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gateway-7")
    (named,) = await spans_of(a_turn())

    assert plain.resource.attributes["service.name"] == "pruning-proxy"
    assert named.resource.attributes["service.name"] == "gateway-7"


class Failing(SpanExporter):
    def __init__(self, *results):
        self.results = list(results)

    def export(self, spans):
        return self.results.pop(0)


def test_failing_and_recovering_is_one_event_each():
    failed, worked = SpanExportResult.FAILURE, SpanExportResult.SUCCESS
    told = tracing._Told(Failing(failed, failed, worked, worked))
    with capture_logs() as logs:
        for _ in range(4):
            told.export([None])

    assert [entry["event"] for entry in logs] == ["trace_export_failed", "trace_export_recovered"]


async def test_a_collector_that_hangs_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(tracing, "CLOSE_S", 0.2)
    release = asyncio.Event()

    class Hanging(SpanExporter):
        def export(self, spans):
            while not release.is_set():
                time.sleep(0.01)
            return SpanExportResult.SUCCESS

    traces = Tracing(Hanging(), time.time)
    traces.take(a_turn())
    started = time.monotonic()
    await traces.aclose()
    release.set()

    assert 0.1 < time.monotonic() - started < 60


async def test_a_failure_of_tracing_is_told_and_the_turn_goes_on():
    def broken(_turn):
        raise ValueError("hush")

    watch = Watch()
    watch.trace = broken
    with capture_logs() as logs, watch.feed.watching() as watcher:
        watch.settled(a_turn())

    assert [event.kind for event in watcher.take()] == ["call"]
    assert logs == [{"event": "failed_open", "stage": "trace", "error": "ValueError", "log_level": "warning"}]


@asynccontextmanager
async def a_collector(received):
    """Takes OTLP over HTTP on loopback and keeps path and body."""

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        received.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app) as url:
        yield url


async def called_through(endpoint):
    """The status of one call through a whole proxy that traces to this endpoint."""
    async with serving(a_provider()) as upstream:
        settings = Settings(
            upstreams={"openai": Upstream(base_url=upstream)},
            store=Store(url="memory://"),
            log=Log(otlp_endpoint=endpoint),
        )
        async with (
            assembled(settings) as app,
            serving(app) as base,
            httpx.AsyncClient(base_url=base, timeout=10.0, headers={"authorization": "Bearer sk-hush"}) as http,
        ):
            answer = await http.post("/v1/chat/completions", json={"model": MODEL, "messages": [user("a secret word")]})
    return answer.status_code


async def test_a_whole_proxy_sends_its_calls_to_the_collector_without_content_or_keys():
    received = []
    async with a_collector(received) as endpoint:
        status = await called_through(endpoint)
    ((method, path, body),) = received

    assert (status, method, path) == (200, "POST", "/v1/traces")
    assert f"chat {MODEL}".encode() in body
    assert b"gen_ai.usage.input_tokens" in body
    assert not any(word in body for word in (b"secret", b"sk-hush"))


async def test_calls_do_not_notice_a_collector_that_is_not_there():
    async with asyncio.timeout(60):
        assert await called_through("http://127.0.0.1:9") == 200


def test_without_the_extra_the_start_names_the_setting_and_what_to_install():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from proxy.cli import main; sys.exit(main(['serve', '--port', '0', '--store', 'memory://']))"
    )
    environ = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=30)

    assert ended.returncode == 2
    assert "log.otlp_endpoint" in ended.stderr
    assert "pip install 'pruning-proxy[otel]'" in ended.stderr


def test_nothing_of_it_is_imported_unless_a_collector_is_named():
    code = (
        "import sys, json; from proxy.server import assembly; from proxy.settings.values import Settings\n"
        "assert assembly._tracing(Settings()) is None\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('opentelemetry')]))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30)

    assert json.loads(ended.stdout) == []
    assert assembly._tracing(Settings()) is None
