import json

from proxy.dialects.kept import MOST_BYTES, Room, is_sealed, packed, restorations


def test_what_was_packed_is_unpacked_by_position():
    kept = packed([(0, {"a": "é"}), (2, ["b"])], sealed=True)

    assert [(position, json.loads(payload)) for position, payload in restorations(kept)] == [
        (0, {"a": "é"}),
        (2, ["b"]),
    ]
    assert is_sealed(kept)
    assert not is_sealed(packed([(0, "x")], sealed=False))


def test_nothing_and_too_much_are_not_kept():
    assert packed([], sealed=True) == ""


def test_what_is_nested_too_deep_to_be_written_is_not_kept():
    deep: list = []
    for _ in range(200_000):
        deep = [deep]

    assert packed([(0, deep)], sealed=True) == ""
    assert packed([(0, "x" * MOST_BYTES)], sealed=False) == ""


def test_room_counts_texts_and_ends():
    room = Room()

    assert room.take("x" * (MOST_BYTES - 1), None, 7)
    assert room.take("x")
    assert not room.exceeded
    assert not room.take("x")
    assert room.exceeded


def test_a_damaged_value_restores_nothing():
    assert restorations("") == ()
    assert restorations("[1]") == ()
    assert not is_sealed("{")
