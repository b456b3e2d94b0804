import gzip

import pytest

from proxy.server.copying import Copying


def test_pieces_are_observed_together_and_all_of_them_by_the_end():
    seen = []
    copying = Copying(seen.append, None)
    for _ in range(95):
        copying.take(b"x" * 100)
    first, second, *more = [len(piece) for piece in seen]
    assert first <= 4100
    assert second == 4100

    copying.flush()
    copying.flush()

    assert sum(map(len, seen)) == 9500
    assert len(seen) == 3 + len(more)
    assert copying.whole


def test_streams_that_began_together_are_read_at_different_times():
    turns = []

    def observe(piece):
        turns[-1].append(piece)

    copyings = [Copying(observe, None) for _ in range(64)]
    for _ in range(41):
        turns.append([])
        for copying in copyings:
            copying.take(b"x" * 100)

    assert sum(map(len, turns)) == 64
    assert max(map(len, turns)) <= 3


def test_what_is_encoded_is_observed_in_plain():
    seen, plain = [], b"data: hello\n\n" * 5000
    copying = Copying(seen.append, b"gzip")
    packed = gzip.compress(plain)
    for at in range(0, len(packed), 7):
        copying.take(packed[at : at + 7])
    copying.flush()

    assert b"".join(seen) == plain


@pytest.mark.parametrize(("encoding", "sent"), [(b"gzip", b"no gzip"), (b"made-up", b"x"), (None, b"poison")])
def test_who_trips_sees_no_more_and_nobody_else_hears_of_it(encoding, sent):
    seen = []

    def observe(piece):
        seen.append(piece)
        if b"poison" in piece:
            raise RuntimeError("tripped")

    copying = Copying(observe, encoding)
    copying.take(sent)
    copying.flush()
    before = list(seen)
    copying.take(b"more")
    copying.flush()

    assert not copying.whole
    assert seen == before
