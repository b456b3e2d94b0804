from proxy.server.engines.detour import detour


def test_a_proxy_is_told_its_credentials_as_they_were_meant():
    through = detour("http://me:s%40cr%C3%A9t@proxy.corp.example:3128")

    assert (through.host, through.port) == ("proxy.corp.example", 3128)
    # me:s@crét
    assert through.headers == [(b"proxy-authorization", b"Basic bWU6c0BjcsOpdA==")]


def test_without_credentials_it_is_told_nothing():
    assert detour("http://[::1]").headers == []
    assert (detour("http://[::1]").host, detour("http://[::1]").port) == ("::1", 80)
