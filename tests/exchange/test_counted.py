"""A provider counts otherwise than we do, and nothing is learned about it yet."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.conversation.model import Message, Reasoning, Text
from proxy.exchange.counted import counted_of, with_sealed
from proxy.exchange.prepare import prepare
from proxy.exchange.ready import draft_of
from proxy.exchange.spent import is_sealed
from proxy.exchange.weigh import weigh
from proxy.pruning.policy import PRESETS
from proxy.pruning.purse import charged
from proxy.pruning.reasoning import LEAVE_REASONING
from proxy.pruning.reasoning_rules import OPTIONAL
from proxy.pruning.situation import Prices
from proxy.tokens.learn import NOTHING_LEARNED
from proxy.tokens.usage import Usage
from tests.builders import QUIET, Line, a_received, an_observation, messages_of, rounds, weigh_request, words


def drafted(line, history):
    received = a_received(history, caller=line.caller, recall=line.recall)
    memory = line.memory(received)
    weighed = line.prepared(history).weighed
    return draft_of(received, memory, weighed, line.scale, line.policy, NOTHING_LEARNED, memory.plan)


def ours(history):
    """What the body is on our own scale."""
    line = Line()
    return weigh_request(line.scale, a_received(history).conversation)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
def test_what_was_sent_before_has_the_rate_that_the_provider_counted_it_at(factor):
    first, second = (rounds(*(words(str(n), 1000) for n in range(calls))) for calls in (1, 2))
    line = Line()
    asked = line.prepared(first)
    line.answered(
        asked, an_observation(usage=Usage(input_tokens=round(factor * asked.context.total), output_tokens=20))
    )
    draft = drafted(line, second)
    counted = counted_of(draft)

    assert counted.tokens == draft.tokens
    assert counted.rate == pytest.approx(factor, rel=0.01)
    assert draft.context.new > 900
    assert counted.least == pytest.approx(draft.context.total - max(0, 1 - factor) * draft.context.new, rel=0.01)


def test_what_was_never_counted_has_no_rate():
    counted = counted_of(drafted(Line(), rounds(words("a", 1000))))

    assert (counted.rate, counted.least) == (None, None)


def sealed_weights(policy, *more):
    """What two answers' encrypted reasoning of 300 and 3,000 tokens adds to the messages that hold it."""
    line = Line(policy)
    items = [{"type": "message", "role": "user", "content": "go"}]

    def received():
        body = json.dumps({"model": "m", "input": items}).encode()
        return a_received(body=body, path="/v1/responses", caller=line.caller, recall=line.recall)

    def answered(size):
        asked = received()
        ready = prepare(asked, line.memory(asked), line.policy, line.scale, now=1000.0 + len(items))
        usage = Usage(input_tokens=ready.weighed.total + told, output_tokens=size + 20, reasoning_tokens=size)
        line.answered(ready, an_observation("well", usage=usage))

    told = 0
    for number, size in enumerate((300, 3000)):
        answered(size)
        told += size
        items += [
            {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "fine"},
        ]
    answered(0)
    items += [{"type": "message", "role": "assistant", "content": "well"}, *more]
    last = received()
    memory = line.memory(last)
    weighed = weigh(last, line.scale)
    draft = draft_of(last, memory, weighed, line.scale, line.policy, NOTHING_LEARNED, memory.plan)
    added = [after - before for after, before in zip(counted_of(draft).tokens, draft.tokens, strict=True)]
    return [tokens for tokens in added if tokens]


def test_sealed_reasoning_weighs_what_was_told_of_its_answer():
    more = {"type": "message", "role": "user", "content": "and now?"}

    assert sealed_weights(QUIET, more) == [300, 3000]


def test_sealed_reasoning_that_the_provider_drops_weighs_nothing():
    drops = replace(QUIET, reasoning=replace(LEAVE_REASONING, rule=replace(OPTIONAL, drops=True)))
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    more = {"type": "message", "role": "user", "content": "and now?"}

    assert sealed_weights(drops, call, {"type": "function_call_output", "call_id": "c", "output": "fine"}) == [
        300,
        3000,
    ]
    assert sealed_weights(drops, more) == []


def bills(texts, policy, prices, factor):
    """What a provider that counts `factor` tokens for each of ours has charged behind each call, and for the client's own."""
    line = Line(policy)
    paid = direct = 0.0
    before, before_direct = [], []
    for number in range(len(texts) + 1):
        history = rounds(*texts[:number])
        ready = line.prepared(history)
        sent = messages_of(ready.body)
        charge, tokens = charge_of(sent, before, prices, factor)
        paid += charge
        direct += charge_of(history, before_direct, prices, factor)[0]
        before, before_direct = sent, history
        line.answered(ready, an_observation(usage=Usage(input_tokens=tokens, output_tokens=20)))
        yield paid, direct


def charge_of(sent, before, prices, factor):
    same = 0
    while same < min(len(sent), len(before)) and sent[same] == before[same]:
        same += 1
    tokens, cached = (round(factor * ours(part)) if part else 0 for part in (sent, sent[:same]))
    return charged(cached, tokens, prices, prices.minimum), tokens


@given(
    sizes=st.lists(st.integers(50, 3000), min_size=1, max_size=8),
    profile=st.sampled_from(sorted(PRESETS)),
    factor=st.sampled_from([0.6, 0.8, 1.3, 1.7]),
    minimum=st.sampled_from([1024, 4096]),
)
@example(sizes=[172, 1061, 50], profile="bold", factor=0.8, minimum=1024)
def test_no_conversation_is_more_than_one_percent_dearer_at_a_provider_that_counts_otherwise(
    sizes, profile, factor, minimum
):
    arrive, prune = PRESETS[profile]
    prices = Prices(read=0.1, write=1.0, minimum=minimum)
    policy = replace(QUIET, arrive=arrive, prune=prune, prices=prices)

    for paid, direct in bills([words(str(n), size) for n, size in enumerate(sizes)], policy, prices, factor):
        assert paid <= 1.01 * direct


def test_sealed_reasoning_is_what_says_nothing_of_its_length():
    def holding(**fields):
        return Message(role="assistant", parts=(Reasoning(**fields),), digest=b"")

    messages = [
        holding(text="", signed=True),
        holding(text="said", signed=True),
        holding(text=""),
        Message(role="assistant", parts=(Text(text="a"),), digest=b""),
    ]

    assert list(map(is_sealed, messages)) == [True, False, False, False]


def test_what_only_the_provider_counts_belongs_to_sealed_reasoning():
    sealed = [False, True, False, True, True]

    assert with_sealed([10, 4, 10, 4, 0], sealed, 101.0, {}) == [10, 54, 10, 54, 0]
    for unexplained in (-50.0, 1.0):
        assert with_sealed([10, 4, 10, 4, 0], sealed, unexplained, {}) == [10, 4, 10, 4, 0]
    assert with_sealed([10, 0], [False, True], 100.0, {}) == [10, 0]


def test_what_the_provider_has_told_of_single_answers_is_theirs_and_the_others_share_the_rest():
    sealed = [True, True, True, False]

    assert with_sealed([4, 4, 4, 9], sealed, 100.0, {1: 60.0}) == [24, 64, 24, 9]
    assert with_sealed([4, 4, 4, 9], sealed, 100.0, {0: 0.0, 1: 60.0}) == [4, 64, 44, 9]
    assert with_sealed([4, 4, 4, 9], sealed, 30.0, {0: 20.0, 1: 40.0, 2: 0.0}) == [14, 24, 4, 9]
    # What does not go out has none, whatever was told of it.
    assert with_sealed([0, 4], [True, True], 10.0, {0: 50.0}) == [0, 14]
