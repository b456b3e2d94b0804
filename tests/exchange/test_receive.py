import json

import pytest

from proxy.conversation.edit import EMPTY_PLAN
from proxy.conversation.recall import Recall
from proxy.dialects import dialect_for
from proxy.exchange.receive import Memory, comes_back_changed, deepest, joins_at, memory_of, receive
from proxy.ledger.records import Reply
from proxy.tokens.usage import Usage
from tests.builders import PATH, a_body, a_clear, a_received, an_anchor, calls, plan_of, result, said, user

USED = Usage(input_tokens=100, output_tokens=10)
TALK = [user("a"), said("b"), user("c"), said("d"), user("e")]


def read(body, **more):
    return receive(dialect_for(PATH), PATH, {}, body, **{"caller": "x", "recall": Recall(), **more})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b'{"messages": 7}', b'{"model": "m"}'])
def test_what_is_no_request_of_this_format_is_not_read(body):
    assert read(body) is None


def test_every_message_has_a_key_and_boundaries_are_deepest_first():
    received = a_received(TALK)

    assert len(received.keys) == len(set(received.keys)) == 5
    assert received.candidates == (4, 2, 0)
    assert received.lookup() == [received.keys[index] for index in (4, 2, 0)]


def test_key_order_and_white_space_do_not_change_a_conversations_keys():
    plain = a_body(TALK)
    spaced = json.dumps(
        {"messages": [dict(reversed(message.items())) for message in TALK], "model": "other"}, indent=2
    ).encode()

    assert read(plain).keys == read(spaced).keys


def test_callers_with_equal_histories_have_no_key_in_common():
    assert set(read(a_body(TALK), caller="x").keys).isdisjoint(read(a_body(TALK), caller="y").keys)


def test_system_text_and_tools_are_not_part_of_the_identity():
    tools = [{"type": "function", "function": {"name": "read", "parameters": {}}}]
    with_more = a_received([{"role": "system", "content": "be brief"}, *TALK], tools=tools)

    assert with_more.keys == a_received(TALK).keys


def test_r1_the_deepest_anchor_with_usage_of_this_model_is_the_measured_one():
    received = a_received(TALK)
    running = an_anchor(turn=3)
    other_model = an_anchor(turn=2, usage=USED, model="other")
    measured = an_anchor(turn=1, usage=USED)

    assert deepest(received, [running, other_model, measured]) == (0, 2)
    assert deepest(received, [None, other_model, None]) == (1, -1)
    assert deepest(received, [None, None, None]) == (-1, -1)


def test_memory_holds_the_anchors_their_places_and_their_plans():
    received = a_received([user("a"), calls("c0"), result("c0", "x" * 400), said("b"), user("c")])
    plan = plan_of(a_clear(received, 2))
    line = an_anchor(plan_id=plan.plan_id())
    measured = an_anchor(usage=USED, plan_id=plan.plan_id())

    memory = memory_of(received, [line, None, measured], 0, 2, {plan.plan_id(): plan})

    assert (memory.line, memory.line_at, memory.plan) == (line, 4, plan)
    assert (memory.measured, memory.measured_at, memory.measured_plan) == (measured, 0, plan)


def test_a_plan_that_was_only_observed_did_not_stand_in_the_measured_body():
    received = a_received(TALK)
    plan = plan_of(a_clear(received, 0))
    measured = an_anchor(usage=USED, plan_id=plan.plan_id(), sent=False)

    memory = memory_of(received, [measured], 0, 0, {plan.plan_id(): plan})

    assert memory.plan == plan
    assert memory.measured_plan == EMPTY_PLAN


def test_a_lost_plan_counts_as_empty():
    received = a_received(TALK)
    memory = memory_of(received, [an_anchor(usage=USED, plan_id=b"gone")], 0, 0, {})

    assert memory.plan == memory.measured_plan == EMPTY_PLAN


READ = [user("a"), calls("x"), result("x")]


def test_calls_whose_answers_reasoning_is_kept_are_told_with_the_place_where_each_had_ended():
    received = a_received([user("a"), said(), user("b"), said(), user("c")])
    plain, kept = Reply(fingerprint=b"f"), Reply(fingerprint=b"f", reasoning="hm")
    anchors = [an_anchor(replies=(plain,)), an_anchor(replies=(kept, plain, kept)), an_anchor(replies=(kept,))]

    memory = memory_of(received, anchors, 0, 0, {})
    without = memory_of(received, [anchors[0], None, None], 0, 0, {})

    assert memory.answered == ((2, anchors[1]), (0, anchors[2]))
    assert without.answered == ()


@pytest.mark.parametrize(
    ("history", "line_at", "at"),
    [
        # What follows a result or a question without an answer between may be a note for this moment.
        ([*READ, user("note")], 0, 2),
        ([*READ, user("note"), user("another")], 0, 2),
        ([user("a"), user("note")], -1, 0),
        ([*TALK, user("note")], 2, 4),
        # A request that goes on where an earlier one ended.
        (READ, 0, -1),
        (TALK, 2, -1),
        ([user("a")], -1, -1),
        # One that does not, although an answer shows where that must have been.
        (READ, -1, 0),
        (TALK, 0, 2),
        ([user("a"), said("begun")], -1, 0),
        # What stands in front of a question may be examples, which others have, too.
        (TALK, -1, -1),
    ],
)
def test_a_request_is_joined_where_nothing_for_the_moment_stands(history, line_at, at):
    received, memory = a_received(history), Memory(line=an_anchor() if line_at >= 0 else None, line_at=line_at)

    assert joins_at(received, memory) == at
    assert comes_back_changed(received, memory) is (len(received.candidates) > 1 and line_at < received.candidates[1])
