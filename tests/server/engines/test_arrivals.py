from proxy.server.engines.arrivals import Arrivals

MUCH = 256 * 1024


def test_what_came_is_taken_at_one_go():
    arrived = Arrivals()
    assert arrived.size == 0
    assert arrived.take() == b""
    for piece in (b"a", b"b"):
        arrived.add(piece)

    assert arrived.size == 2
    assert arrived.take() == b"ab"
    assert arrived.size == 0


def test_much_is_told_once_until_it_is_taken_and_more_may_come():
    arrived = Arrivals()
    told = [arrived.add(b"x" * MUCH), arrived.add(b"x"), arrived.add(b"x")]
    assert told == [False, True, False]
    assert arrived.held_back

    arrived.take()
    arrived.held_back = False

    assert not arrived.add(b"x" * MUCH)
    assert arrived.add(b"x")


def test_pieces_go_to_who_takes_them_at_once_until_he_has_enough():
    arrived, taken = Arrivals(), []

    def into(piece):
        taken.append(piece)
        return len(taken) < 2

    arrived.pass_on()
    arrived.into(into)
    arrived.pass_on()
    for piece in (b"a", b"b", b"c"):
        assert arrived.pours == (len(taken) < 2)
        arrived.add(piece)
        arrived.pass_on()

    assert taken == [b"a", b"b"]
    assert arrived.take() == b"c"
