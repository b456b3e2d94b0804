import gc
import json
import tracemalloc

import orjson
import pytest

from proxy.conversation.recall import Recall, by_hash, remembered
from proxy.dialects.openai_chat.view import parse_message


def test_the_same_bytes_are_made_into_something_once():
    made = []
    recall = Recall()

    assert recall.get("kind", b"x", lambda raw: made.append(raw) or len(made)) == 1
    assert recall.get("kind", bytes(bytearray(b"x")), lambda raw: made.append(raw) or len(made)) == 1
    assert made == [b"x"]


def test_kinds_do_not_mix():
    recall = Recall()

    assert recall.get("a", b"x", lambda _: 1) == 1
    assert recall.get("b", b"x", lambda _: 2) == 2
    assert recall.get("a", b"x", lambda _: 3) == 1


def test_the_least_recently_used_goes_first():
    recall = Recall(room_bytes=3 * 40_000)
    for name in (b"a", b"b", b"c"):
        recall.get("kind", name * 10_000, bytes)
    recall.get("kind", b"a" * 10_000, lambda _: b"made again")
    recall.get("kind", b"d" * 10_000, bytes)

    assert recall.get("kind", b"a" * 10_000, lambda _: b"made again") == b"a" * 10_000
    assert recall.get("kind", b"b" * 10_000, lambda _: b"made again") == b"made again"


def test_what_is_larger_than_the_room_is_held_alone():
    recall = Recall(room_bytes=1000)
    recall.get("kind", b"a" * 10, len)
    recall.get("kind", b"b" * 100_000, len)

    assert recall.get("kind", b"b" * 100_000, lambda _: -1) == 100_000
    assert recall.get("kind", b"a" * 10, lambda _: -1) == -1


def test_many_small_things_are_bounded_too():
    """A parsed message of 30 bytes takes far more than 30 bytes."""
    recall = Recall(room_bytes=100_000)
    for number in range(5000):
        recall.get("kind", b"%d" % number, lambda raw: [raw])

    assert len(recall) < 1000
    assert recall.held_bytes <= 100_000


def messages(count, words):
    """Raw messages, all different, as clients send them: with and without characters outside ASCII."""
    for number in range(count):
        text = f"{number} {words}"
        yield orjson.dumps({"role": "user", "content": text})
        yield json.dumps({"role": "tool", "tool_call_id": "c", "content": text}).encode()


@pytest.mark.parametrize(
    "words", ["", "line of a file\n" * 20, "word " * 300, "word " * 2000, "日本語 " * 400, "done 🎉 " * 400]
)
def test_what_is_held_takes_the_memory_that_is_said(words):
    recall = Recall()
    raws = list(messages(300, words))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for raw in raws:
            # A copy, as a slice of a body is one.
            recall.get("chat", bytes(bytearray(raw)), parse_message)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert 0.9 * taken < recall.held_bytes < 2 * taken


def test_what_could_not_be_made_is_not_held():
    recall = Recall()
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            recall.get("kind", b"x", refuse)

    assert recall.held_bytes == 0
    assert recall.get("kind", b"x", len) == 1


def refuse(raw):
    raise ValueError("no")


def test_a_text_is_read_once_as_long_as_there_is_room():
    read = []

    @remembered(room_bytes=10_000)
    def letters(text):
        read.append(text)
        return frozenset(text)

    assert letters("abc") == letters("".join(["a", "bc"])) == frozenset("abc")
    assert read == ["abc"]

    for number in range(100):
        letters(f"{number:04d}")
    assert letters("abc") == frozenset("abc")
    assert read.count("abc") == 2


def test_what_is_asked_for_again_and_again_stays():
    read = []

    @remembered(room_bytes=10_000)
    def letters(text):
        read.append(text)
        return frozenset(text)

    for number in range(100):
        letters("abc")
        letters(f"{number:04d}")

    assert read.count("abc") == 1


def test_small_answers_are_kept_without_their_texts():
    read = []

    @by_hash(most=8)
    def shouts(text):
        read.append(text)
        return text.isupper()

    assert [shouts("no"), shouts("YES"), shouts("no"), shouts("YES")] == [False, True, False, True]
    assert read == ["no", "YES"]

    for number in range(20):
        shouts(str(number))
    shouts("no")
    assert read.count("no") == 2
