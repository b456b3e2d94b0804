import json
from dataclasses import replace

import msgspec
import pytest

from proxy.conversation.edit import EMPTY_PLAN, Insert, Plan, Replace, StripReasoning, Summarise
from proxy.conversation.fingerprint import index_of
from proxy.conversation.recall import Recall
from proxy.exchange.binding import bound_by, breaks_bound, drop_option, dropping
from proxy.exchange.weigh import weigh
from proxy.pruning.reasoning import ReasoningPolicy
from proxy.pruning.reasoning_rules import ReasoningRule
from tests.builders import QUIET, a_received, a_scale

BINDS, FREE = "claude-opus-5-5", "claude-sonnet-4-5"
DROPS = replace(QUIET, reasoning=ReasoningPolicy(drop_bound=True))


def a_request(model=BINDS, thinking=True):
    """A user's request, two steps with signed thinking, and the user again."""
    history = [{"role": "user", "content": "go"}]
    for number in range(2):
        thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
        use = {"type": "tool_use", "id": f"u{number}", "name": "look", "input": {}}
        found = {"type": "tool_result", "tool_use_id": f"u{number}", "content": "found"}
        history += [{"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [found]}]
    history.append({"role": "user", "content": "next"})
    body = {"model": model, "max_tokens": 9, "messages": history}
    body |= {"thinking": {"type": "adaptive"}} if thinking else {}
    return a_received(body=json.dumps(body).encode(), path="/v1/messages")


def summary(received, last):
    keys = received.keys
    return Summarise(
        first=keys[0], last=keys[last], text="s", reason="full", tokens_before=9, tokens_after=1, by_model=True
    )


def clear(received, at, kind="clear"):
    return Replace(
        at=received.keys[at], part=0, kind=kind, text="", reason="old", tool="look", tokens_before=9, tokens_after=1
    )


def breaks(received, *edits, policy=QUIET):
    return breaks_bound(received, index_of(received.keys), Plan(edits), policy)


def test_a_summary_breaks_what_is_signed_behind_it():
    received = a_request()

    assert breaks(received, summary(received, 0))
    assert breaks(received, summary(received, 2))
    assert not breaks(received, summary(received, 4))


def test_nothing_breaks_where_nothing_is_bound():
    received = a_request(FREE)

    assert not breaks(received, summary(received, 0))


def test_reasoning_that_is_out_is_not_bound():
    received = a_request()
    strips = [StripReasoning(at=received.keys[at], tokens_before=1) for at in (1, 3)]

    assert not breaks(received, summary(received, 0), *strips)
    assert breaks(received, summary(received, 0), strips[0])


def test_edits_at_first_sight_and_of_another_branch_break_nothing():
    received, other = a_request(), a_request(thinking=False)
    foreign = msgspec.structs.replace(other, keys=tuple(b"x" * 16 for _ in other.keys))

    assert not breaks(received, clear(received, 2, "cap"), Insert(after=received.keys[0], text="x", tokens_after=1))
    assert not breaks(received, summary(foreign, 0), clear(foreign, 2), policy=DROPS)


def test_placeholders_break_only_where_they_may_come_in_front_of_signed_reasoning():
    received = a_request()

    assert not breaks(received, clear(received, 2))
    assert breaks(received, clear(received, 2), policy=DROPS)
    assert not breaks(received, clear(received, 4), policy=DROPS)


def test_the_option_goes_out_only_where_something_breaks_and_it_can_be_asked():
    received, bare = a_request(), a_request(thinking=False)

    assert drop_option(received, weigh(received, a_scale()), EMPTY_PLAN, QUIET) is None
    assert drop_option(received, weigh(received, a_scale()), Plan((summary(received, 0),)), QUIET) is not None
    assert drop_option(bare, weigh(bare, a_scale()), Plan((summary(bare, 0),)), QUIET) is None


def test_a_body_made_from_the_request_gets_the_option_too():
    received = a_request()
    body = received.view.body.replace(b'"max_tokens": 9', b'"max_tokens": 4000')

    with_option, header = dropping(received, Plan((summary(received, 0),)), QUIET, body, Recall())

    assert json.loads(with_option)["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert header is not None
    assert dropping(received, EMPTY_PLAN, QUIET, body, Recall()) == (body, None)


@pytest.mark.parametrize(
    ("model", "thinking", "wish", "bound"),
    [
        # The gate decides.
        (BINDS, True, ReasoningPolicy(), None),
        # The setting allows all, where the provider can be asked to drop.
        (BINDS, True, ReasoningPolicy(drop_bound=True), 0),
        (BINDS, False, ReasoningPolicy(drop_bound=True), None),
        (FREE, True, ReasoningPolicy(drop_bound=True), None),
        # A refusal has taught that this model binds, too.
        ("strange", True, ReasoningPolicy(rule=ReasoningRule(binds=True)), 4),
    ],
)
def test_from_where_on_older_messages_may_change(model, thinking, wish, bound):
    assert bound_by(a_request(model, thinking), replace(QUIET, reasoning=wish)) == bound
