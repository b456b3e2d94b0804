"""Every setting, with its default, its unit and its meaning. Values only: `load` fills them.

A section of the configuration file is a class here, a key is a field; `proxy.settings.load` derives the names of
environment variables and the checks from these types, so a new setting is one new field (and one line each in
`config/pruning-proxy.toml` and the README; a test holds them together).
"""

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from proxy.pruning.policy import PROTECTED_TOOLS
from proxy.settings.section import Secret, SecretUrl, Section

Mode = Literal["off", "observe", "prune"]
Profile = Literal["gentle", "bold"]

Encoding = Literal["o200k_base", "cl100k_base"]

Whole = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class Server(Section, frozen=True, kw_only=True):
    """The listening side."""

    host: str = "127.0.0.1"
    """Address to listen on. Beyond loopback, the control plane asks for `admin_token`."""
    port: Port = 8787
    """TCP port; 0 takes a free one."""
    workers: Count = 1
    """Processes that share the port. More than one needs a store that they can share (sqlite or redis)."""
    max_body_mb: Count = 64
    """Largest request body in MiB, as sent and after decompression; more is answered with 413."""
    cache_mb: Annotated[int, Meta(ge=8)] = 64
    """Memory in MiB, per worker, for histories that were read before, so that a turn reads only what is new."""
    heartbeat_s: Seconds = 15.0
    """Seconds between comment lines on a stream whose first byte waits for a summary."""
    require_keys: tuple[Secret, ...] = ()
    """Proxy keys, each `KEY` or `NAME=KEY`; if there are any, every modelled call must bring one of them."""
    admin_token: Secret = ""
    """Bearer token of the control plane; empty: the control plane answers loopback clients only."""


class Log(Section, frozen=True, kw_only=True):
    """What is written to standard error, and what is sent to a collector."""

    format: Literal["auto", "json", "console"] = "auto"
    """One JSON object a line, or lines for people; auto: those in a terminal, JSON everywhere else."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is written. Content and credentials are written at none."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector, OTLP over HTTP, before `/v1/traces`: it gets a span per call; wants the extra `otel`.

    Where nobody sets it, OTEL_EXPORTER_OTLP_ENDPOINT counts.
    """


class Store(Section, frozen=True, kw_only=True):
    """Where conversations, plans and measurements are remembered."""

    url: SecretUrl = "sqlite:///~/.local/state/pruning-proxy/state.db"
    """`sqlite:///PATH`, `redis://…`, `redis+sentinel://…`, `redis+cluster://…` (over TLS `rediss…`) or `memory://`.

    The default follows XDG_STATE_HOME; `load` expands `~`.
    """
    ttl_hours: Annotated[float, Meta(gt=0)] = 48.0
    """Hours after which a conversation that nobody continued is forgotten."""
    key: Secret = ""
    """Passphrase of at least 16 characters that seals what is stored of content; empty: stored as it is."""
    originals: bool = True
    """Keep what edits replaced for `context --edits` and the dashboard, bounded in size and life."""
    transcripts: str = ""
    """Folder that gets each conversation's newest request, for `replay`; unsealed, and never deleted. Empty: none."""


class Upstream(Section, frozen=True, kw_only=True):
    """A provider, reached as `/up/NAME/…`."""

    base_url: str = ""
    """What stands before `/v1…` or `/v1beta…`. Empty: the name is known but needs a URL before it can be used."""
    ask_usage: bool = True
    """Ask for usage in streams whose client did not (and hide the extra event from that client)."""
    auto_cache: bool = False
    """Set cache breakpoints in Anthropic Messages calls whose client set none; only in mode `prune`."""
    timeout_s: Seconds = 600.0
    """Seconds without a byte from the provider before the call fails with 504."""
    ca_file: str = ""
    """PEM file with the authorities to trust instead of the system's."""
    http_proxy: SecretUrl = "auto"
    """HTTP proxy on the way there (`http://…`); empty: none. `auto`: by HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY."""
    api_key: Secret = ""
    """Replaces the client's key; only together with `server.require_keys`, or anyone who reaches the port could spend."""


class ModelSettings(Section, frozen=True, kw_only=True):
    """What is known about a model; None: take it from the price table, the provider, or learn it."""

    window: Count | None = None
    """Context window in tokens, input and output together."""
    max_output: Count | None = None
    """Most output tokens of one answer."""
    tokenizer: Encoding | None = None
    """The bundled encoding that comes nearest to the model's own."""
    must_pass_back_reasoning: bool | None = None
    """The provider refuses a history without the reasoning of tool-calling turns."""
    cache_read_ratio: Share | None = None
    """Price of a cached input token as a share of the plain input price; 1 means no discount."""
    cache_write_ratio: Annotated[float, Meta(ge=0, le=10)] | None = None
    """Price of writing an input token to the cache, as a share of the plain input price."""
    cache_ttl_s: Seconds | None = None
    """Seconds that an unused cache entry lives."""


class Estimate(Section, frozen=True, kw_only=True):
    """How tokens are counted before the provider does."""

    tokenizer: Literal["auto"] | Encoding = "auto"
    """Encoding for models of unknown vocabulary; auto picks it by the model's name."""
    learn: bool = True
    """Correct estimates by a factor learned per upstream and model from the reported usage."""
    exact: Literal["off", "near"] = "off"
    """near: ask the provider's count endpoint where the estimate may lie on either side of a limit. off: never."""


class Arrive(Section, frozen=True, kw_only=True):
    """What happens to a tool result before any model has seen it, when changing it breaks no cache."""

    enabled: bool = True
    """Switches the whole section."""
    repeats: bool = True
    """A result, or a long run of its lines, that stands whole in the body already becomes a reference to it."""
    ansi: bool = True
    """Terminal colour codes and overwritten progress lines go."""
    collapse: bool = False
    """Fold routine output (repeated log lines, passing tests, listings) with honest counts."""
    cap_share: Share = 0.5
    """A single result over this share of the usable window keeps its head and its tail; 0 never caps."""


class Prune(Section, frozen=True, kw_only=True):
    """When and which older tool results give way to a short placeholder."""

    policy: Literal["priced", "pressure", "always"] = "priced"
    """priced: when it pays, or under pressure. pressure: only when the window fills. always: whenever there is enough."""
    protect_tokens: Whole = 40_000
    """The newest results up to this many tokens stay; at most a fifth of a small window."""
    minimum_tokens: Whole = 20_000
    """Least saving, in tokens, that is worth changing the history for; scaled down for small windows."""
    keep_recent_tool_results: Whole = 0
    """So many newest results stay in any case, whatever their size."""
    min_chars: Whole = 200
    """Shorter results stay: a placeholder would not be smaller."""
    protect_user_turns: Whole = 0
    """Results since the n-th last user message stay. 0, because an agent works for hundreds of calls in one user turn."""
    protected_tools: tuple[str, ...] = PROTECTED_TOOLS
    """Tools whose results stay; shell patterns; letter case, `_` and `-` do not count."""
    batch_min_chars: Whole = 0
    """Wait until so many characters can go at once; 0 leaves that to `minimum_tokens`."""
    dedupe: bool = True
    """Results of equal calls that a later call superseded go first."""
    engage: Share = 0.75
    """Pressure begins when estimate and output reserve exceed this share of the window."""
    release: Share = 0.65
    """Pressure ends below this share; less than `engage`, so that it does not flap."""
    keep_share: Share = 0.15
    """Share of a result that its placeholder may spend on the identifiers that later turns are likely to need; the policy
    `always` spends none."""
    horizon: Count | Literal["learned"] = "learned"
    """Turns that a conversation is expected to go on; learned from earlier ones, or a fixed number."""
    holdout: Share = 0.0
    """Share of conversations that are left unpruned, to compare with."""


class Compact(Section, frozen=True, kw_only=True):
    """When the oldest part of a conversation is replaced by a summary."""

    trigger: Literal["window", "share", "off"] = "window"
    """window: estimate and output reserve no longer fit. share: over `share` of what is usable. off: never."""
    share: Share = 1.0
    """For trigger "share": part of the usable window (the window without the output reserve)."""
    background_share: Share = 0.85
    """The summary is begun in the background at this part of the trigger's limit; 1 waits for the limit."""
    model: str = ""
    """Model that writes the summaries; empty: the conversation's own, which reads its warm cache. "none": no call is ever
    made, a record of the conversation's facts that needs no model stands instead."""
    keep_recent_messages: Whole = 2
    """Newest messages that always stay."""
    tail_share: Share = 0.25
    """Part of the usable window that the newest messages may fill after compaction; at most 15,000 tokens."""
    max_summary_tokens: Count = 4_000
    """Longest summary that is asked for; at most an eighth of the usable window."""
    early: bool = False
    """Put old steps into a short record, made without a model, where the price formula says that it pays."""
    early_tail_tokens: Count = 8_000
    """Newest tokens that no such early record touches; at most a fifth of the window."""


class Reasoning(Section, frozen=True, kw_only=True):
    """What happens to earlier turns' reasoning that the client sends back."""

    strip: Literal["none", "all_but_last", "all"] = "none"
    """Which turns' reasoning goes; never where the provider forbids it."""
    restore: Literal["demanded"] | bool = "demanded"
    """Put reasoning that the client dropped in again: where the provider refuses otherwise, wherever it is known, or never."""
    drop_bound: bool = False
    """Prune also in front of signed thinking, and have Anthropic drop the blocks that this makes invalid."""


class Settings(Section, frozen=True, kw_only=True):
    """The whole configuration."""

    profile: Profile = "gentle"
    """Presets for everything below; single keys still win. See `PRESETS`."""
    mode: Mode = "prune"
    """off: relay and measure. observe: decide and report, send the original. prune: send the pruned body."""
    server: Server = Server()
    log: Log = Log()
    store: Store = Store()
    upstreams: dict[str, Upstream] = msgspec.field(default_factory=lambda: dict(UPSTREAMS))
    models: dict[str, ModelSettings] = msgspec.field(default_factory=dict)
    """Shell pattern over `MODEL` or `UPSTREAM/MODEL`, letter case does not count → what is known of those models."""
    estimate: Estimate = Estimate()
    arrive: Arrive = Arrive()
    prune: Prune = Prune()
    compact: Compact = Compact()
    reasoning: Reasoning = Reasoning()

    def model(self, upstream: str, model: str) -> ModelSettings:
        """What the configuration says of a model: of each key, the value under the most specific matching pattern."""
        names = (model.lower(), f"{upstream}/{model}".lower())
        matching = [pattern for pattern in self.models if any(fnmatchcase(name, pattern.lower()) for name in names)]
        known: dict[str, Any] = {}
        for pattern in sorted(matching, key=_specificity):
            values = msgspec.structs.asdict(self.models[pattern])
            known.update({key: value for key, value in values.items() if value is not None})
        return ModelSettings(**known)


def _specificity(pattern: str) -> int:
    return len(pattern) - 2 * sum(pattern.count(mark) for mark in "*?")


PRESETS: dict[Profile, dict[str, dict[str, Any]]] = {
    "gentle": {"prune": {"protect_tokens": 4_000, "minimum_tokens": 500, "keep_share": 0.12}},
    "bold": {
        "arrive": {"collapse": True},
        "prune": {"protect_tokens": 1_000, "minimum_tokens": 100, "keep_share": 0.09},
        "compact": {"early": True},
    },
}
"""Profile → section → key → value: what a profile sets unless a key says otherwise. Those of `prune` are for policy
`priced`, whose formula decides when; `pressure` and `always` keep the plain defaults. A test holds them to the values that
were measured (pruning.policy.PRESETS)."""

UPSTREAMS: dict[str, Upstream] = {
    name: Upstream(base_url=url)
    for name, url in {
        "openai": "https://api.openai.com",
        "anthropic": "https://api.anthropic.com",
        "gemini": "https://generativelanguage.googleapis.com",
        "openrouter": "https://openrouter.ai/api",
        "deepseek": "https://api.deepseek.com",
        "groq": "https://api.groq.com/openai",
        "xai": "https://api.x.ai",
        "mistral": "https://api.mistral.ai",
        "together": "https://api.together.xyz",
        "fireworks": "https://api.fireworks.ai/inference",
        "cerebras": "https://api.cerebras.ai",
        # The international endpoints; keys of the mainland ones (api.moonshot.cn, dashscope.aliyuncs.com) need their URL.
        "moonshot": "https://api.moonshot.ai",
        "dashscope": "https://dashscope-intl.aliyuncs.com/compatible-mode",
        # Serves /paas/v4, /coding/paas/v4 and /anthropic/v1 below one root.
        "zai": "https://api.z.ai/api",
        # Each customer has an address of his own.
        "azure": "",
        "ollama": "http://127.0.0.1:11434",
        "vllm": "http://127.0.0.1:8000",
        "llamacpp": "http://127.0.0.1:8080",
        "lmstudio": "http://127.0.0.1:1234",
    }.items()
}
"""Names that work without configuration, with their public base URLs."""
