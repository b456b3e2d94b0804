from dataclasses import replace

import msgspec
import pytest

from proxy.conversation.edit import Insert, RestoreReasoning, StripReasoning
from proxy.exchange.originals import originals_of
from proxy.ledger.originals import MOST_BYTES, MOST_SESSION_BYTES, original_id
from tests.builders import EAGER, Line, a_clear, a_summary, calls, result, rounds, said, user, words

LONG = words("long", 900)
HISTORY = [*rounds(LONG), said("read it"), user("next")]


def kept(history=HISTORY, *, edits=None, policy=EAGER):
    """The originals of a call's edits: its own, or those given (a function of the request)."""
    ready = Line(policy).prepared(history)
    return originals_of(
        ready if edits is None else msgspec.structs.replace(ready, new_edits=tuple(edits(ready.received)))
    )


@pytest.mark.parametrize("mode", ["observe", "prune"])
def test_what_was_cleared_is_kept_as_the_client_sent_it(mode):
    line = Line(replace(EAGER, mode=mode))
    ready = line.prepared(HISTORY)
    (edit,) = ready.new_edits

    assert [(one.id, one.text, one.cut_chars) for one in originals_of(ready)] == [(original_id(edit), LONG, 0)]


def test_a_call_that_decides_nothing_keeps_nothing():
    line = Line(EAGER)
    line.turn(HISTORY)

    assert originals_of(line.prepared([*HISTORY, said("done"), user("thanks")])) == ()


def test_the_span_of_a_summary_is_kept_as_labelled_text():
    (original,) = kept(edits=lambda received: [a_summary(received, 0, 2)])

    assert original.text.startswith("[user] do it")
    assert "[assistant calls read]" in original.text
    assert LONG[:100] in original.text


def test_reasoning_that_goes_is_kept_where_it_can_be_read():
    history = [user(), said("done", reasoning_content="because of this"), user("next")]
    (original,) = kept(history, edits=lambda received: [StripReasoning(at=received.keys[1], tokens_before=4)])

    assert original.text == "because of this"


def test_what_was_put_in_replaced_nothing():
    assert kept(edits=lambda received: [Insert(after=received.keys[0], text="hi", tokens_after=1)]) == ()
    assert kept(edits=lambda received: [RestoreReasoning(at=received.keys[0], payload="{}", tokens_after=1)]) == ()


def test_several_edits_of_one_result_keep_it_once():
    def edits(received):
        cleared = a_clear(received, 2)
        return [cleared, msgspec.structs.replace(cleared, text="[shorter]", kind="cap")]

    assert len(kept(edits=edits)) == 1


def test_a_large_batch_is_cut_so_that_each_of_it_has_its_part_of_the_room():
    ids = [f"c{number}" for number in range(400)]
    history = [user(), calls(*ids), *(result(name, f"{name} " * 4000) for name in ids), said("read"), user("next")]
    found = kept(history)

    assert len(found) == len(ids)
    assert all(original.cut_chars for original in found)
    assert sum(len(original.text) for original in found) <= MOST_SESSION_BYTES + 60 * len(ids)
    assert MOST_SESSION_BYTES / len(ids) < MOST_BYTES
