"""Values to bytes and back."""

import zlib
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import Unstorable
from proxy.stores.codec import COMPRESS_FROM_BYTES, pack, pack_plan, unpack_anchor, unpack_plan, unpack_turn
from proxy.tokens.usage import Usage
from tests.stores.conftest import a_plan, a_turn, a_usage, an_anchor


def test_anchors_and_turns_come_back_equal():
    assert unpack_anchor(pack(an_anchor(usage=a_usage()))) == an_anchor(usage=a_usage())
    assert unpack_turn(pack(a_turn(error_code="overloaded", cost=0.5))) == a_turn(error_code="overloaded", cost=0.5)


def test_what_a_call_did_not_say_takes_no_room():
    assert msgspec.msgpack.decode(pack(an_anchor(usage=Usage(input_tokens=9)))).keys() == {
        *("key", "session", "turn", "at", "upstream", "model", "usage", "replies", "system_digest", "estimated")
    }
    assert msgspec.msgpack.decode(pack(a_turn()))["usage"].keys() == {
        "input_tokens",
        "cache_read_tokens",
        "output_tokens",
    }


def test_a_row_that_says_every_field_is_read_too():
    """As programs before wrote them."""
    turn, anchor = a_turn(), an_anchor(usage=a_usage())
    whole = msgspec.structs.asdict(turn) | {"usage": msgspec.structs.asdict(turn.usage)}

    assert unpack_turn(msgspec.msgpack.encode(whole)) == turn
    assert unpack_anchor(msgspec.msgpack.encode(msgspec.structs.asdict(anchor))) == anchor


def test_long_plans_are_compressed_and_short_ones_are_not():
    short, long = a_plan("x"), a_plan("the same line again\n" * 1000)

    assert len(pack_plan(short)) == len(short.encoded()) + 1
    assert len(long.encoded()) > COMPRESS_FROM_BYTES
    # Up to a page at its end is not.
    assert len(pack_plan(long)) < COMPRESS_FROM_BYTES + len(long.encoded()) / 40
    assert (unpack_plan(pack_plan(short)), unpack_plan(pack_plan(long))) == (short, long)


@given(st.lists(st.text(max_size=30).map(lambda text: text * 150), min_size=1, max_size=40))
def test_any_older_program_reads_a_long_plan_as_one_compressed_text(texts):
    plan = a_plan(*texts)
    packed = pack_plan(plan)

    assert packed[1:] == plan.encoded() if packed[:1] == b"\0" else zlib.decompress(packed[1:]) == plan.encoded()
    assert unpack_plan(packed) == plan


def test_a_plan_that_goes_on_begins_with_what_was_packed_before():
    texts = ["".join(map(str, range(1000 * number, 1000 * number + 1000))) for number in range(21)]
    before, after = pack_plan(a_plan(*texts[:20])), pack_plan(a_plan(*texts))

    # Behind the number of edits, and up to the block in which the new one begins.
    same = slice(30, int(len(before) * 0.8))
    assert after[same] == before[same]


def test_of_a_plan_that_goes_on_only_what_fills_a_page_is_compressed(monkeypatch):
    texts = [f"{number} " + "the same line again\n" * 20 for number in range(200)]
    made = []

    def compressor(*options):
        made.append(options)
        return zlib.compressobj(*options)

    monkeypatch.setattr("proxy.stores.codec.zlib", SimpleNamespace(**vars(zlib) | {"compressobj": compressor}))
    for edits in range(1, len(texts) + 1):
        pack_plan(a_plan(*texts[:edits]))

    # A page once for itself and once in its block of two.
    assert len(made) <= 1.6 * len(a_plan(*texts).encoded()) / COMPRESS_FROM_BYTES


@given(st.binary(max_size=200))
def test_what_is_no_value_of_ours_counts_as_absent(junk):
    for read in (unpack_anchor, unpack_turn, unpack_plan):
        assert read(junk) is None


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_plan_is_absent_or_readable_but_never_an_error(place, byte):
    packed = bytearray(pack_plan(a_plan("a line of text\n" * 1000)))
    packed[place % len(packed)] = byte

    found = unpack_plan(bytes(packed))
    assert found is None or found.edits is not None


@pytest.mark.parametrize("changes", [{"label": "\ud800"}, {"usage": a_usage(input_tokens=2**70)}])
def test_what_cannot_be_kept_is_told_from_a_store_that_is_down(changes):
    with pytest.raises(Unstorable, match="turn cannot be stored"):
        pack(a_turn(**changes))


def test_a_row_of_a_newer_program_with_more_fields_is_still_read():
    fields = msgspec.msgpack.decode(pack(an_anchor()))
    newer = msgspec.msgpack.encode({**fields, "a_field_of_tomorrow": [1, 2]})

    assert unpack_anchor(newer) == an_anchor()


def test_a_row_of_an_older_program_with_fewer_fields_is_still_read():
    fields = msgspec.msgpack.decode(pack(an_anchor()))
    del fields["estimated"]

    assert unpack_anchor(msgspec.msgpack.encode(fields)) == an_anchor(estimated=0)
