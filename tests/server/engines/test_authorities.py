import ssl

import certifi
import pytest

from proxy.server.engines import authorities
from proxy.server.engines.authorities import tls_context


@pytest.fixture
def system(monkeypatch):
    """Says what authorities the system has; the contexts of other tests are forgotten before and after."""

    def has(cafile=None, capath=None):
        paths = ssl.DefaultVerifyPaths(cafile, capath, "SSL_CERT_FILE", "", "SSL_CERT_DIR", "")
        monkeypatch.setattr(authorities.ssl, "get_default_verify_paths", lambda: paths)

    tls_context.cache_clear()
    yield has
    tls_context.cache_clear()


def test_the_system_s_authorities_are_trusted_where_there_are_any(system, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(certifi, "where", lambda: asked.append("certifi"))
    (tmp_path / "0a1b2c3d.0").touch()
    for place in ({"cafile": "/somewhere.pem"}, {"capath": str(tmp_path)}):
        system(**place)
        tls_context.cache_clear()
        tls_context(None)

    assert asked == []


def test_where_the_system_has_none_those_of_certifi_are_trusted(system, tmp_path):
    known = ssl.create_default_context(cafile=certifi.where()).cert_store_stats()["x509_ca"]
    for place in ({}, {"capath": str(tmp_path)}):
        system(**place)
        tls_context.cache_clear()
        context = tls_context(None)

        assert context.cert_store_stats()["x509_ca"] == known > 50
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_file_is_trusted_instead_of_the_system(system):
    system()
    with pytest.raises(OSError, match="No such file"):
        tls_context("/nowhere.pem")
