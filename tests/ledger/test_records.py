import msgspec
import pytest

from proxy.ledger.records import Anchor, Reply, Turn
from proxy.tokens.usage import Usage
from tests.builders import a_turn, an_anchor


@pytest.mark.parametrize(
    ("estimated", "actual", "error", "percent"),
    [
        (5120, 5115, 5, 0.1),
        (73_000, 122_400, -49_400, -40.4),
        (100, 100, 0, 0.0),
        (100, 0, None, None),
        (100, None, None, None),
    ],
)
def test_r4_c5_c6_c7_error_is_signed_and_of_the_actual(estimated, actual, error, percent):
    turn = a_turn(estimated=estimated, usage=Usage(input_tokens=actual))

    assert turn.error == error
    assert turn.error_percent == (percent if percent is None else pytest.approx(percent, abs=0.05))


def test_c42_more_than_the_window_holds_is_nothing_to_compare_with():
    turn = a_turn(usage=Usage(input_tokens=10_000_000), window=128_000)

    assert turn.usage.input_tokens == 10_000_000
    assert turn.error is turn.error_percent is None


def test_a_summary_call_was_not_estimated_and_has_no_error():
    turn = a_turn(estimated=0, usage=Usage(input_tokens=34_746), purpose="summary")

    assert turn.error is turn.error_percent is None


@pytest.mark.parametrize(
    ("outcome", "reported", "spared"),
    [("error", None, 0), ("error", 400, 7), ("truncated", None, 7), ("client_closed", None, 7), ("ok", None, 7)],
)
def test_edits_in_a_call_that_the_provider_did_not_take_spared_nothing(outcome, reported, spared):
    turn = a_turn(outcome=outcome, usage=Usage(input_tokens=reported), removed_tokens=7)
    watched = a_turn(outcome=outcome, usage=Usage(input_tokens=reported), would_remove_tokens=7)

    assert (turn.spared_tokens, watched.would_spare_tokens) == (spared, spared)


def test_stored_forms_come_back_as_they_were():
    """Stores keep records as MessagePack."""
    anchor = an_anchor(usage=Usage(input_tokens=5), replies=(Reply(fingerprint=b"f" * 16, share=0.5, calls=2),))
    turn = a_turn(edits={"clear": 2}, by_tool={"read": 100}, decisions=("clear read -10",))

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(anchor), type=Anchor) == anchor
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(turn), type=Turn) == turn


def test_a_row_of_a_later_version_can_still_be_read():
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(a_turn()))
    later = msgspec.msgpack.encode(stored | {"something_new": 7})

    assert msgspec.msgpack.decode(later, type=Turn) == a_turn()
