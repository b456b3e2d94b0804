"""Whom to trust over TLS: the system's authorities, or those of a file."""

import ssl
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=64)
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """A client's side of TLS that trusts the authorities in `ca_file`, a PEM file; None: those of the system.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` name others, as for every program that uses OpenSSL. Raises OSError where the file cannot
    be read.
    """
    if ca_file is None and not _has_authorities(ssl.get_default_verify_paths()):
        # Python of python.org on macOS, the smallest of container images: then what httpx goes by, too.
        import certifi  # noqa: PLC0415  needed there only

        ca_file = certifi.where()
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _has_authorities(paths: ssl.DefaultVerifyPaths) -> bool:
    """Whether the file is there, or the folder and something in it."""
    folder = Path(paths.capath) if paths.capath else None
    return bool(paths.cafile) or (folder is not None and any(folder.iterdir()))
