"""Every error that this house raises on purpose, drawn once.

    ProxyError
    ├── ClientError            the request cannot be served as it came (4xx, in the client's wire format)
    │   ├── BadRequest             400  framing, encoding, path tricks
    │   ├── Unauthorised           401  a proxy key is required
    │   ├── UnknownUpstream        404  /up/NAME with a name that is not configured
    │   ├── BodyTooLarge           413  over server.max_body_mb, also after decompression
    │   ├── UnsupportedEncoding    415  a Content-Encoding we cannot read
    │   └── UpgradeRefused         426  WebSocket: clients fall back to HTTP
    ├── UpstreamError          the provider could not be reached or broke the exchange
    │   ├── UpstreamUnreachable    502  connect, TLS, DNS
    │   ├── UpstreamTimeout        504  nothing came within upstreams.NAME.timeout_s
    │   └── UpstreamBroken         502  the connection ended before the answer did
    ├── SettingsError          wrong configuration: fails at start, names the setting
    └── StoreError             the ledger failed: never reaches a client, the call goes on unpruned
        └── Unstorable             this one value cannot be kept; the store itself is well

Split by whose fault it is; each carries the status it suggests. Texts name what was expected, what came and what to do,
in one line without secrets and without message content.
"""


class ProxyError(Exception):
    """Base of the tree; `status` is the HTTP status that it suggests."""

    status = 500
    kind = "proxy_error"


class ClientError(ProxyError):
    """The client's request cannot be served as it came."""

    status = 400
    kind = "invalid_request_error"


class BadRequest(ClientError):
    """Framing, encoding or path of the request is not acceptable."""


class Unauthorised(ClientError):
    """`server.require_keys` is set and no valid proxy key came."""

    status = 401
    kind = "authentication_error"


class UnknownUpstream(ClientError):
    """The path names an upstream that is not configured."""

    status = 404
    kind = "not_found_error"


class BodyTooLarge(ClientError):
    """The body is over `server.max_body_mb`, as sent or after decompression."""

    status = 413
    kind = "request_too_large"


class UnsupportedEncoding(ClientError):
    """The body has a Content-Encoding that we would have to read and cannot."""

    status = 415


class UpgradeRefused(ClientError):
    """The client asked for a WebSocket; the same call over HTTP is served."""

    status = 426


class UpstreamError(ProxyError):
    """The provider could not be reached or broke the exchange."""

    status = 502
    kind = "upstream_error"


class UpstreamUnreachable(UpstreamError):
    """No connection to the provider: name, TCP or TLS."""


class UpstreamTimeout(UpstreamError):
    """The provider sent nothing within the upstream's `timeout_s`."""

    status = 504


class UpstreamBroken(UpstreamError):
    """The provider's connection ended before its answer did."""


class SettingsError(ProxyError):
    """The configuration is wrong; the text names the setting, the value and what to write."""


class StoreError(ProxyError):
    """The ledger's store failed; the call goes on without it."""


class Unstorable(StoreError):
    """One value that no store can keep (lone surrogates, integers over 64 bits) or that is larger than all its room."""
