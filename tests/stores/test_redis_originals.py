import random

from proxy.ledger.originals import an_original
from proxy.stores.redis_originals import fields_of, newest_by_id, opened, too_much
from proxy.stores.sealed import PLAIN
from tests.stores.conftest import key


def a_field(name, *, now, size=10):
    """The field of an original of about so many bytes."""
    noise = "".join(map(chr, random.Random(name).choices(range(33, 127), k=size)))
    (field,) = fields_of("s", [an_original(key(name), noise)], PLAIN, now=now, ttl_s=60.0)
    return field


def test_what_was_kept_last_counts():
    fields = [a_field("a", now=9.0), a_field("b", now=2.0), a_field("a", now=1.0)]

    assert newest_by_id(fields) == {key("a"): fields[0], key("b"): fields[1]}


def test_nothing_goes_while_there_is_room():
    assert too_much([a_field("a", now=1.0), a_field("b", now=2.0)]) == []


def test_the_oldest_go_first_and_the_rest_fits():
    fields = [a_field(f"n{number}", now=float(number), size=30_000) for number in range(400)]
    gone = too_much(reversed(fields))
    left = [field for field in fields if field not in gone]

    assert sorted(gone) == fields[: len(gone)]
    assert len(gone) > 0
    assert too_much(left) == []


def test_a_value_lives_until_its_own_end_and_junk_is_none():
    original = an_original(key("a"), "text")
    (value,) = fields_of("s", [original], PLAIN, now=100.0, ttl_s=60.0).values()

    assert opened("s", key("a"), value, PLAIN, 159.0) == original
    assert opened("s", key("a"), value, PLAIN, 161.0) is None
    assert opened("s", key("a"), None, PLAIN, 0.0) is None
    assert opened("s", key("a"), b"x", PLAIN, 0.0) is None
    assert opened("s", key("a"), value[:8] + b"junk", PLAIN, 0.0) is None
