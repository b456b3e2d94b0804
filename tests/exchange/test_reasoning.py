"""Reasoning: counted as it goes out, stripped when asked, restored when lost."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.model import Reasoning, ToolCall
from proxy.conversation.recall import Recall
from proxy.dialects import DIALECTS, dialect_for
from proxy.dialects.kept import packed
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import prepare
from proxy.exchange.reasoning import keeps_reasoning
from proxy.exchange.receive import NO_MEMORY, receive
from proxy.ledger.records import Reply
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.reasoning import ReasoningPolicy
from proxy.pruning.reasoning_rules import ReasoningRule
from proxy.tokens.usage import Usage
from tests.builders import (
    EAGER,
    QUIET,
    Line,
    a_received,
    a_scale,
    an_observation,
    calls,
    messages_of,
    result,
    said,
    user,
    weigh_request,
    words,
)
from tests.dialects.recordings import recordings

STRIP = replace(QUIET, reasoning=ReasoningPolicy(strip="all"))


def prepared(history, policy=QUIET, **fields):
    return Line(policy).prepared(history, **fields)


def reasoned(text, tokens, **more):
    return said(text, reasoning_content=words(f"think {text}", tokens), **more)


# The effective count


def test_c32_r29_r30_reasoning_that_does_not_go_out_is_not_shown():
    """100k of content and 50k of reasoning that is stripped: 100k are shown, and the 50k beside them."""
    history = [user(words("u", 100_000)), reasoned("ok", 50_000), user("next")]

    raw, effective = prepared(history), prepared(history, STRIP)

    assert raw.context.total - effective.context.total == 50_000
    assert (raw.context.reasoning, effective.context.reasoning) == (50_000, 0)
    assert (raw.context.reasoning_raw, effective.context.reasoning_raw) == (50_000, 50_000)
    assert effective.context.total == pytest.approx(100_000, abs=50)


def test_c33_r31_the_effective_count_decides_about_compaction():
    history = [user("u"), reasoned(words("a", 99_000), 60_000), user("next"), said("fine"), user("more")]
    window = {"window": 150_000, "compact": CompactPolicy(trigger="window")}

    assert prepared(history, replace(QUIET, **window), max_tokens=1000).context.overflows
    assert not prepared(history, replace(STRIP, **window), max_tokens=1000).context.overflows
    assert prepared(history, replace(STRIP, **window), max_tokens=1000).need is None


@pytest.mark.parametrize(("strip", "beyond"), [("none", 300), ("all_but_last", 200), ("all", 0)])
def test_c34_r32_each_policy_leaves_its_own_count(strip, beyond):
    history = [user(words("u", 900)), reasoned("one", 100), user("next"), reasoned("two", 200), user("more")]
    bare = prepared([{k: v for k, v in m.items() if k != "reasoning_content"} for m in history]).context.total

    ready = prepared(history, replace(QUIET, reasoning=ReasoningPolicy(strip=strip)))

    assert ready.context.total - bare == beyond
    assert ready.context.reasoning == beyond


def test_r33_what_is_new_is_filtered_as_what_is_old():
    line = Line(STRIP)
    history = [user("u")]
    line.answered(line.prepared(history), an_observation("done", usage=Usage(input_tokens=9, output_tokens=5)))
    unknown = [*history, reasoned("another answer than ours", 500), user("next")]

    ready = line.prepared(unknown)

    assert ready.context.basis == "anchored"
    assert ready.context.total < 100
    assert ready.context.reasoning == 0


def after_an_answer(reply, usage, *, resent):
    """An anchored request: what was reported, and the history that came back."""
    line = Line(QUIET)
    first = [user("u")]
    line.answered(line.prepared(first), an_observation(reply, usage=usage))
    return line.prepared([*first, resent, user("x" * 80)])


def test_c38_thoughts_outside_the_output_that_do_not_come_back_are_not_counted():
    usage = Usage(input_tokens=1000, output_tokens=450, reasoning_tokens=400)

    ready = after_an_answer("done", usage, resent=said("done"))

    assert ready.context.last_input + ready.context.last_output_resent == 1050


@pytest.mark.parametrize(("thought", "expected"), [("", 10_600), ("long thoughts", 13_000)])
def test_c44_reasoning_counts_exactly_when_it_comes_back(thought, expected):
    usage = Usage(input_tokens=10_000, output_tokens=3_000, reasoning_tokens=2_400)
    resent = said("done", **({"reasoning_content": thought} if thought else {}))

    ready = after_an_answer("done", usage, resent=resent)

    assert ready.context.last_input + ready.context.last_output_resent == expected
    assert ready.context.new == 20 + 2 * a_scale().overheads.message


thoughts = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 900)), min_size=1, max_size=6)


@settings(deadline=None)
@given(thoughts, st.sampled_from(["all", "all_but_last"]), st.sampled_from([1500, 3000, 6000]))
def test_the_effective_count_drives_display_prune_and_compact_alike(shape, strip, window):
    """A request whose reasoning is stripped is shown, pruned and compacted like one that never had that reasoning."""
    history = []
    for number, (thinking, found) in enumerate(shape):
        history += [user(f"ask {number}"), calls(f"c{number}"), result(f"c{number}", words(f"r{number}", found))]
        answer = said(f"answer {number}")
        history.append(answer | ({"reasoning_content": words(f"t{number}", thinking)} if thinking else {}))
    history.append(user("last"))
    policy = Policy(
        window=window, prune=PrunePolicy(policy="pressure"), compact=CompactPolicy(trigger="window"), doubt=0.0
    )
    strips = replace(policy, reasoning=ReasoningPolicy(strip=strip))

    stripped = prepared(history, strips, max_tokens=100)
    bodies = messages_of(prepared(history, replace(strips, prune=_NEVER, window=None), max_tokens=100).body)
    never = prepared(bodies, policy, max_tokens=100)

    assert stripped.context.total == never.context.total
    assert stripped.context.reasoning == never.context.reasoning
    assert stripped.anchor.pressed == never.anchor.pressed
    assert _kinds(stripped, "clear") == _kinds(never, "clear")
    assert (stripped.need is None) == (never.need is None)
    # And the number is that of the very body that goes out.
    sent = a_received(messages_of(stripped.body), max_tokens=100).conversation
    assert stripped.context.total == weigh_request(a_scale(), sent)


_NEVER = PrunePolicy(policy="pressure")


def _kinds(ready, kind):
    return sum(getattr(edit, "kind", "") == kind for edit in ready.new_edits)


# Byte for byte


@pytest.mark.parametrize("name", [dialect.name for dialect in {id(row[1]): row[1] for row in DIALECTS}.values()])
def test_r12_recorded_conversations_keep_every_byte_of_their_reasoning(name):
    seen = 0
    for recording in recordings(name):
        if recording.request is None:
            continue
        path = _PATHS[name]
        received = receive(dialect_for(path), path, {}, recording.request, caller="me", recall=Recall())
        if received is None or not received.view.editable:
            continue
        scale = a_scale(dialect=name, model=received.conversation.model)
        ready = prepare(received, NO_MEMORY, EAGER, scale, now=1.0)
        again = receive(dialect_for(path), path, {}, ready.body, caller="me", recall=Recall())
        for number, message in enumerate(received.conversation.messages):
            if any(isinstance(part, Reasoning | ToolCall) for part in message.parts):
                before = received.view.body[slice(*received.view.spans[number])]
                assert again.view.body[slice(*again.view.spans[number])] == before
                seen += any(isinstance(part, Reasoning) for part in message.parts)
        if not ready.changed:
            assert ready.body is received.view.body
    assert seen >= _LEAST[name]


_PATHS = {
    "openai_chat": "/v1/chat/completions",
    "anthropic_messages": "/v1/messages",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
}
_LEAST = {"openai_chat": 1, "anthropic_messages": 1, "openai_responses": 1, "gemini": 0}
"""Recorded messages with reasoning in them."""


# Restoring


DEMANDS = ReasoningPolicy(rule=ReasoningRule(demands="all"))
CALLS = ReasoningPolicy(rule=ReasoningRule(demands="calls"))
NAMED = ReasoningPolicy(rule=ReasoningRule(demands="named", keeps=True))


def answered_with(line, history, text, reasoning, *, sealed=False):
    """A turn whose answer had reasoning, which the ledger keeps."""
    ready = line.prepared(history)
    observation = an_observation(text, usage=Usage(input_tokens=100, output_tokens=50, reasoning_tokens=30))
    kept = packed([(0, {"reasoning_content": reasoning})], sealed=sealed)
    replies = tuple(Reply(fingerprint=reply.fingerprint, reasoning=kept) for reply in observation.replies)
    line.answered(ready, an_observation(text, replies=replies, usage=observation.usage))
    return ready


def test_r12_reasoning_that_a_client_lost_is_put_in_again_and_stays():
    line = Line(replace(QUIET, reasoning=DEMANDS))
    answered_with(line, [user("u")], "done", "because")
    second = [user("u"), said("done"), user("next")]

    ready = line.turn(second)
    third = line.turn([*second, said("done"), user("more")])

    assert messages_of(ready.body)[1] == said("done", reasoning_content="because")
    assert messages_of(third.body)[1] == said("done", reasoning_content="because")
    assert third.body.startswith(ready.body[: ready.body.index(b'"next"')])


def test_what_was_put_in_again_is_counted_with_the_answer():
    line = Line(replace(QUIET, reasoning=DEMANDS))
    answered_with(line, [user("u")], "done", words("because", 30))

    ready = line.prepared([user("u"), said("done"), user("next")])

    assert ready.context.last_output_resent == 50
    assert ready.context.reasoning == 30
    assert ready.context.reasoning_raw == 0


@pytest.mark.parametrize(
    "wish",
    [ReasoningPolicy(), CALLS, NAMED, replace(DEMANDS, restore=False)],
    ids=["optional", "calls", "named", "never"],
)
def test_nothing_is_put_in_where_nobody_demands_it(wish):
    line = Line(replace(QUIET, reasoning=wish))
    answered_with(line, [user("u")], "done", "because")

    ready = line.prepared([user("u"), said("done"), user("next")])

    assert not ready.changed


def test_only_the_answer_that_was_given_gets_its_reasoning_back():
    line = Line(replace(QUIET, reasoning=DEMANDS))
    answered_with(line, [user("u")], "done", "because")

    assert not line.prepared([user("u"), said("something else"), user("next")]).changed
    assert not line.prepared([user("u"), said("done", reasoning_content="mine"), user("next")]).changed


def test_sealed_reasoning_is_put_in_at_first_sight_or_not_at_all():
    """What was answered without it is bound to a prefix without it."""
    for sealed, changed in ((False, True), (True, False)):
        line = Line(QUIET)
        answered_with(line, [user("u")], "done", "because", sealed=sealed)
        second = [user("u"), said("done"), user("next")]
        line.turn(second)
        line.policy = replace(QUIET, reasoning=DEMANDS)

        assert line.prepared([*second, said("done"), user("more")]).changed is changed


def test_reasoning_is_kept_for_clients_that_do_not_bring_it():
    bringing = [user("u"), said("done", reasoning_content="x"), user("next")]

    assert keeps_reasoning(a_received([user("u")]), QUIET)
    assert keeps_reasoning(a_received([user("u"), said("done"), user("next")]), QUIET)
    assert not keeps_reasoning(a_received(bringing), QUIET)
    assert not keeps_reasoning(a_received([*bringing[:2], said("in two pieces"), user("next")]), QUIET)
    assert not keeps_reasoning(a_received([user("u")]), replace(QUIET, mode="observe"))
    assert not keeps_reasoning(a_received([user("u")]), replace(QUIET, reasoning=replace(DEMANDS, restore=False)))


def test_a_call_of_the_clients_own_gets_back_what_is_demanded_too():
    line = Line(replace(QUIET, reasoning=DEMANDS))
    answered_with(line, [user("u")], "done", "because")
    history = [user("u"), said("done"), user("next")]

    assert line.prepared(history).changed
    ready = prepare(
        a_received(history, caller=line.caller),
        line.memory(a_received(history, caller=line.caller)),
        line.policy,
        line.scale,
        now=1.0,
        held_out=True,
    )
    assert json.loads(ready.body)["messages"][1]["reasoning_content"] == "because"


@pytest.mark.parametrize("named", [True, False])
def test_what_a_provider_has_named_gets_its_reasoning_back(named):
    line = Line(replace(QUIET, reasoning=NAMED))
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
    asks = {"type": "message", "role": "user", "content": "u"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
    first = as_items(line, [asks])
    observation = an_observation("done", usage=Usage(input_tokens=100, output_tokens=50, reasoning_tokens=30))
    kept = packed([(0, [thought])], sealed=True)
    replies = tuple(Reply(fingerprint=reply.fingerprint, reasoning=kept) for reply in observation.replies)
    line.answered(first, an_observation("done", replies=replies, usage=observation.usage))

    ready = as_items(line, [asks, item | ({"id": "msg_1"} if named else {}), asks])

    assert (b"rs_1" in ready.body) is named


def as_items(line, items):
    """The next call of a line, in Responses."""
    body = json.dumps({"model": "m", "input": items}).encode()
    dialect = dialect_for("/v1/responses")
    received = receive(dialect, "/v1/responses", {}, body, caller=line.caller, recall=line.recall)
    return prepare(received, line.memory(received), line.policy, line.scale, now=1.0)
