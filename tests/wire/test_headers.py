import pytest

from proxy.errors import BadRequest
from proxy.wire.headers import (
    check_request,
    content_length,
    first,
    is_event_stream,
    lines_of,
    listed,
    to_client,
    to_upstream,
    wants_page,
    wants_websocket,
    with_listed,
)


def test_repeated_headers_stay_apart_and_in_order():
    headers = [(b"anthropic-beta", b"a"), (b"x-multi", b"1"), (b"anthropic-beta", b"b"), (b"x-multi", b"2")]

    assert to_upstream(headers) == headers
    assert to_client(headers, status=200) == headers


@pytest.mark.parametrize(
    "name",
    [
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ],
)
def test_hop_by_hop_headers_end_at_this_hop_both_ways(name):
    headers = [(name, b"x"), (b"accept", b"*/*")]

    assert to_upstream(headers) == [(b"accept", b"*/*")]
    assert to_client(headers, status=200) == [(b"accept", b"*/*")]


def test_notes_of_a_proxy_behind_this_one_end_here():
    notes = [(b"x-context-session", b"1"), (b"x-context-basis", b"anchored"), (b"x-context-compacted", b"1")]

    assert to_client([*notes, (b"x-request-id", b"2")], status=200) == [(b"x-request-id", b"2")]


def test_headers_named_in_connection_end_at_this_hop():
    headers = [
        (b"connection", b"close, X-Private"),
        (b"x-private", b"1"),
        (b"connection", b"x-other"),
        (b"x-other", b"2"),
    ]

    assert to_upstream(headers) == []
    assert to_client(headers, status=200) == []


@pytest.mark.parametrize(
    "name", [b"host", b"content-length", b"expect", b"x-context-mode", b"x-context-session", b"x-proxy-key"]
)
def test_what_is_rebuilt_or_meant_for_us_does_not_go_upstream(name):
    assert to_upstream([(name, b"1"), (b"authorization", b"Bearer k")]) == [(b"authorization", b"Bearer k")]


def test_caller_may_drop_more_headers():
    headers = [(b"content-encoding", b"gzip"), (b"accept", b"*/*")]

    assert to_upstream(headers, drop=(b"content-encoding",)) == [(b"accept", b"*/*")]
    assert to_client(headers, status=200, drop=(b"accept",)) == [(b"content-encoding", b"gzip")]


def test_content_length_of_an_answer_stays_unless_there_is_no_body():
    headers = [(b"content-length", b"5")]

    assert to_client(headers, status=200) == [(b"content-length", b"5")]
    assert to_client(headers, status=204) == []
    assert to_client(headers, status=304) == []


def test_answer_header_that_cannot_be_written_again_is_left_out():
    headers = [(b"x-good", b"tab\tand caf\xc3\xa9"), (b"x-bad", b"bell\x07")]

    assert to_client(headers, status=200) == [(b"x-good", b"tab\tand caf\xc3\xa9")]


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"5"), (b"transfer-encoding", b"chunked")],
        [(b"content-length", b"5"), (b"content-length", b"6")],
        [(b"content-length", b"+5")],
        [(b"content-length", b"5, 5")],
        [(b"content-length", b"5".zfill(5000))],
        [(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity")],
        [(b"transfer-encoding", b"gzip, chunked")],
        [(b"host", b"a"), (b"host", b"b")],
        # A folded line (RFC 9112 section 5.2) and what hides behind one.
        [(b"x-a", b"1\r\n folded")],
        [(b"x-a", b"1\nx-b: 2")],
        [(b"x-a", b"1\rx-b: 2")],
        [(b"x-a", b"\x00")],
    ],
)
def test_framing_that_two_readers_could_read_differently_is_refused(headers):
    with pytest.raises(BadRequest):
        check_request(headers)


@pytest.mark.parametrize(
    "name",
    [
        "x-upstream-base-url",
        "x-upstream-host",
        "x-openai-base-url",
        "x-base-url",
        "x-target-baseurl",
        "x-portkey-custom-host",
    ],
)
@pytest.mark.parametrize("others", [[], [b"host"], [b"x-a", b"z"]])
def test_header_naming_an_address_is_refused(name, others):
    with pytest.raises(BadRequest, match=f"^{name}: a request cannot choose an upstream"):
        check_request([(name.encode(), b"http://169.254.169.254/"), *((other, b"1") for other in others)])


def test_each_header_is_a_line():
    assert lines_of([(b"a", b"1"), (b"b", b""), (b"a", b"2")]) == b"a: 1\r\nb: \r\na: 2\r\n"
    assert lines_of([]) == b""


def test_ordinary_headers_pass_the_check():
    check_request([(b"host", b"h"), (b"content-length", b"5"), (b"x-stainless-os", b"Linux"), (b"x-title", b"t")])
    check_request(
        [(name, b"1") for name in (b"base-url", b"my-x-base-url", b"x-base-url-of", b"x-portkey-custom-hosts")]
    )
    check_request([(b"transfer-encoding", b"Chunked")])
    # Equal duplicates have one meaning (RFC 9110 section 8.6).
    check_request([(b"content-length", b"5"), (b"content-length", b"5")])


def test_what_passes_the_check_is_named_by_the_first_of_each_name():
    assert check_request([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]) == {b"a": b"1", b"b": b"2"}
    assert check_request([]) == {}


def test_single_values_are_found_in_a_list():
    assert content_length([(b"content-length", b"5")]) == 5
    assert content_length([]) is None
    assert first([(b"a", b"1"), (b"a", b"2")], b"a") == b"1"


def test_only_websocket_upgrades_count_as_such():
    assert wants_websocket({b"connection": b"Upgrade", b"upgrade": b"WebSocket"})
    assert not wants_websocket({b"connection": b"Upgrade, HTTP2-Settings", b"upgrade": b"h2c"})
    assert not wants_websocket({})


def test_a_browser_asks_for_a_page_and_an_api_client_does_not():
    assert wants_page("GET", [(b"accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")])
    assert not wants_page("GET", [(b"accept", b"*/*")])
    assert not wants_page("GET", [])
    assert not wants_page("POST", [(b"accept", b"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2")])


def test_an_event_stream_is_told_by_its_content_type():
    assert is_event_stream([(b"content-type", b"Text/Event-Stream; charset=utf-8")])
    assert not is_event_stream([(b"content-type", b"application/json")])
    assert not is_event_stream([])


@pytest.mark.parametrize(
    ("headers", "value"),
    [([], b"new"), ([(b"a", b"")], b"new"), ([(b"a", b"old, x")], b"old, x,new"), ([(b"a", b"x, new")], b"x, new")],
)
def test_a_value_joins_a_headers_list_once(headers, value):
    assert listed(headers, b"a", b"new") == (b"a", value)


def test_a_list_in_several_headers_becomes_one_and_loses_nothing():
    headers = [(b"a", b"x"), (b"c", b"1"), (b"a", b"y")]

    assert with_listed(headers, b"a", b"new") == [(b"c", b"1"), (b"a", b"x,y,new")]
