"""Clients that end each request with a note for this moment, which the next request has no more."""

from itertools import pairwise

import pytest

from proxy.conversation.edit import Replace, edits_of
from proxy.exchange.policy import Policy
from proxy.pruning.policy import ArrivePolicy
from proxy.tokens.usage import NOT_REPORTED, Usage
from tests.builders import EAGER, QUIET, Line, an_observation, calls, messages_of, result, said, user, words

NOTE = "It is {} o'clock, open files: none."
COLOURED = "\n".join(f"\x1b[32mPASSED\x1b[0m test {number}" for number in range(200))
ARRIVING = Policy(prune=QUIET.prune, compact=QUIET.compact, arrive=ArrivePolicy())


def behind(history, hour):
    return [*history, user(NOTE.format(hour))]


def within(history, hour):
    last = history[-1]
    return [*history[:-1], {**last, "content": last["content"] + NOTE.format(hour)}]


def steps(*texts):
    """The histories of a session in which each call reads one more text."""
    history = [user("do it")]
    yield list(history)
    for number, text in enumerate(texts):
        history += [calls(f"c{number}"), result(f"c{number}", text)]
        yield list(history)


@pytest.mark.parametrize("noted", [behind, within])
def test_edits_last_although_no_request_begins_with_an_earlier_one(noted):
    line = Line(EAGER)
    sent = [line.turn(noted(history, hour)) for hour, history in enumerate(steps(*[words("old", 2000)] * 4))]

    assert len(edits_of(sent[-1].sent_plan.edits, Replace)) >= 2
    assert len({ready.anchor.session for ready in sent}) == (1 if noted is behind else 2)
    assert sent[-1].plan.edits[: len(sent[-2].plan.edits)] == sent[-2].plan.edits


@pytest.mark.parametrize("noted", [behind, within])
def test_what_has_gone_out_goes_out_again_in_the_same_bytes(noted):
    line = Line(ARRIVING)
    histories = list(steps(*[COLOURED + str(number) for number in range(5)]))
    bodies = [messages_of(line.turn(noted(history, hour)).body) for hour, history in enumerate(histories)]

    # Within the last message, the note makes another message of it; and only from the third call on is that plain to see.
    for earlier, later in list(pairwise(bodies))[2:]:
        assert later[: len(earlier) - 1] == earlier[:-1]


def test_the_call_after_is_predicted_from_the_one_before_it_without_its_note():
    line = Line(QUIET)
    first, second = list(steps(words("a", 500)))
    line.answered(line.prepared(behind(first, 1)), an_observation("", usage=Usage(input_tokens=1000, output_tokens=7)))
    ready = line.prepared(behind(second, 2))

    note = ready.weighed.totals[-1]
    assert ready.context.basis == "anchored"
    assert ready.context.last_input == 1000 - note


def test_usage_that_was_not_reported_stays_so():
    line = Line(QUIET)
    found = line.answered(line.prepared(behind([user("a")], 1)), an_observation(usage=NOT_REPORTED))

    assert found.others[0].usage is None


def test_parts_of_the_input_are_not_more_than_is_left_of_it():
    line = Line(QUIET)
    usage = Usage(input_tokens=20, cache_read_tokens=18, cache_write_tokens=2, output_tokens=5)
    found = line.answered(line.prepared(behind([user("a")], 1)), an_observation(usage=usage))

    assert found.others[0].usage.input_tokens < 20
    assert found.others[0].usage.cache_read_tokens == found.others[0].usage.input_tokens
    assert found.others[0].usage.cache_write_tokens == 2


def test_what_was_written_for_an_hour_is_no_more_than_what_is_left():
    line = Line(QUIET)
    usage = Usage(input_tokens=20, cache_write_tokens=20, hour_write_tokens=18, output_tokens=5)
    found = line.answered(line.prepared(behind([user("a")], 1)), an_observation(usage=usage)).others[0].usage

    assert found.hour_write_tokens == found.cache_write_tokens == found.input_tokens


def test_an_ordinary_conversation_is_remembered_once():
    line = Line(QUIET)

    assert [line.answered(line.prepared(history)).others for history in steps("a", "b")] == [()] * 3


def test_a_conversation_that_is_met_in_the_middle_may_have_had_a_note():
    *_, history = steps("a", "b")
    line = Line(QUIET)

    assert line.answered(line.prepared(history)).others
    assert line.answered(line.prepared([*history, said("done"), user("next")])).others == ()


def test_questions_behind_the_same_examples_are_conversations_of_their_own():
    line = Line(QUIET)
    examples = [user("a"), said("A"), user("b"), said("B")]
    asked = [line.turn([*examples, user(question)]) for question in "xy"]

    assert len({ready.anchor.session for ready in asked}) == 2
    assert line.answered(line.prepared([*examples, user("z")])).others == ()


def test_nothing_is_remembered_of_a_call_that_came_to_nothing():
    line = Line(QUIET)

    assert line.answered(line.prepared(behind([user("a")], 1)), status=500).others == ()
