import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import EMPTY_PLAN, Replace
from proxy.exchange.policy import Policy
from proxy.exchange.prepare import as_it_came, prepare
from proxy.exchange.ready import session_id
from proxy.exchange.receive import NO_MEMORY, Memory
from proxy.pruning.policy import ArrivePolicy, PrunePolicy
from proxy.pruning.situation import Prices
from proxy.tokens.learn import NOTHING_LEARNED
from proxy.tokens.usage import Usage
from tests.builders import (
    EAGER,
    QUIET,
    Line,
    a_received,
    a_scale,
    a_summary,
    an_anchor,
    an_observation,
    calls,
    messages_of,
    result,
    rounds,
    said,
    user,
    weigh_request,
    words,
)

LONG = words("old", 2000)
SEEN = [*rounds(LONG), said("read it"), user("next")]
"""One result that a model has seen."""

texts = st.lists(
    st.sampled_from(["short", words("a", 300), words("b", 900), words("b", 900), words("c", 3000)]),
    min_size=1,
    max_size=10,
)
policies = st.sampled_from(
    [
        QUIET,
        EAGER,
        Policy(window=8000, compact=CompactPolicy(trigger="off")),
        Policy(window=6000, prune=PrunePolicy(policy="pressure"), compact=CompactPolicy(trigger="off")),
        Policy(prices=Prices(read=0.1, write=1.25), window=20_000, compact=CompactPolicy(trigger="off")),
        Policy(arrive=ArrivePolicy(enabled=False), prune=PrunePolicy(policy="always", protect_tokens=500)),
    ]
)


def agent(history):
    """Every request of an agent that makes one call at a time."""
    for end in range(1, len(history) + 1):
        if history[end - 1]["role"] != "assistant":
            yield history[:end]


def common_prefix(before, after):
    """How many messages two bodies begin with in common."""
    pairs = zip(messages_of(before), messages_of(after), strict=False)
    return next((number for number, (old, new) in enumerate(pairs) if old != new), len(messages_of(before)))


# Nothing to change


@pytest.mark.parametrize("before", [False, True])
def test_pressure_stays_until_it_is_released_also_where_there_is_no_result(before):
    received = a_received([user(words("x", 590))], max_tokens=100)
    memory = Memory(line=an_anchor(pressed=before))
    policy = replace(QUIET, window=1000, prune=PrunePolicy(engage=0.75, release=0.65))
    ready = prepare(received, memory, policy, a_scale(), now=1.0)

    assert 650 < ready.context.total + ready.context.reserve < 750
    assert ready.anchor.pressed is before


@pytest.mark.parametrize("mode", ["off", "observe", "prune"])
def test_r35_without_an_edit_the_very_same_bytes_object_goes_out(mode):
    received = a_received(SEEN)
    ready = prepare(received, NO_MEMORY, replace(QUIET, mode=mode), a_scale(), now=1.0)

    assert ready.body is received.view.body
    assert not ready.changed
    assert ready.new_edits == ()


@pytest.mark.parametrize(
    ("reason", "policy", "fields", "held_out"),
    [
        ("off", replace(EAGER, mode="off"), {}, False),
        ("replay_only", replace(EAGER, replay_only=True), {}, False),
        ("held_out", EAGER, {}, True),
    ],
)
def test_who_wants_no_decisions_gets_none_and_is_told_why(reason, policy, fields, held_out):
    received = a_received(SEEN, **fields)
    ready = prepare(received, NO_MEMORY, policy, a_scale(), now=1.0, held_out=held_out)

    assert ready.skipped == reason
    assert ready.body is received.view.body


def test_c56_a_clients_own_title_call_is_untouched():
    history = [*SEEN[:-1], user("Generate a title for this conversation")]
    line = Line(EAGER)
    ready = line.prepared(history)

    assert ready.skipped == "utility"
    assert ready.body is ready.received.view.body


def test_a_history_that_the_provider_keeps_is_measured_and_left_alone():
    received = a_received(
        body=json.dumps(
            {
                "model": "m",
                "previous_response_id": "resp_1",
                "input": [{"type": "function_call_output", "call_id": "c", "output": LONG}],
            }
        ).encode(),
        path="/v1/responses",
    )
    ready = prepare(received, NO_MEMORY, EAGER, a_scale(), now=1.0)

    assert ready.skipped == "server_history"
    assert ready.context.total > 2000
    assert ready.body is received.view.body


# Decisions


def test_r22_a_seen_result_is_replaced_and_its_id_role_and_place_stay():
    ready = Line(EAGER).prepared(SEEN)
    before, after = SEEN, messages_of(ready.body)

    assert [message["role"] for message in after] == [message["role"] for message in before]
    assert after[2]["tool_call_id"] == "c0"
    assert len(after[2]["content"]) < len(LONG)
    assert [after[i] for i in (0, 1, 3, 4)] == [before[i] for i in (0, 1, 3, 4)]


def test_c17_a_result_that_no_model_has_seen_stays():
    history = rounds(words("a", 1000), words("b", 60_000))
    ready = Line(replace(EAGER, arrive=ArrivePolicy(enabled=False))).prepared(history)

    assert messages_of(ready.body)[4] == history[4]


def test_c20_r27_of_a_parallel_set_only_the_content_goes():
    answers = [words("a", 2000), "short", "tiny"]
    history = [user(), calls("p", "q", "r"), *map(result, "pqr", answers), said(), user()]
    after = messages_of(Line(EAGER).prepared(history).body)

    assert [message["tool_call_id"] for message in after[2:5]] == ["p", "q", "r"]
    assert [message["content"] for message in after[3:5]] == ["short", "tiny"]
    assert after[2]["content"] != answers[0]


def test_r38_r39_the_saving_stands_in_the_request_that_was_pruned():
    line = Line(EAGER)
    ready = line.turn(SEEN)

    assert ready.removed_tokens > 1900
    assert ready.context.total < 200
    assert line.turns[-1].usage.input_tokens == ready.context.total


def test_r41_the_removed_tokens_are_net_of_the_placeholder():
    ready = Line(EAGER).prepared(SEEN)
    (edit,) = ready.new_edits

    assert ready.removed_tokens == edit.tokens_before - edit.tokens_after
    assert edit.tokens_before == 2000


def test_a_result_that_ends_in_half_a_character_is_pruned_like_any_other():
    """As tools leave it that cut their output by UTF-16 units."""
    line = Line(replace(EAGER, window=8_000))
    history = [user(), calls("a"), result("a", "\ud83d" + words("big", 9_000) + "\ud83d")]

    assert line.prepared(history).new_edits
    assert [edit.kind for edit in line.prepared(history).sent_plan.edits] == ["cap"]


def test_observing_decides_and_sends_the_original():
    line = Line(replace(EAGER, mode="observe"))
    ready = line.turn(SEEN)

    assert ready.body is ready.received.view.body
    assert ready.new_edits
    assert ready.plan.edits
    assert ready.sent_plan == EMPTY_PLAN
    assert ready.removed_tokens == 0
    assert ready.context.total > 2000


@pytest.mark.parametrize("mode", ["off", "observe", "prune"])
def test_what_observing_would_have_removed_is_what_pruning_removes(mode):
    history = [*SEEN, said("more"), user("and then")]
    pruning = Line(EAGER)
    pruning.turn(SEEN)
    removed = pruning.turn(history).removed_tokens
    line = Line(replace(EAGER, mode=mode))
    line.turn(SEEN)
    ready = line.turn(history)

    assert removed > 1000
    assert ready.removed_tokens == (removed if mode == "prune" else 0)
    assert ready.would_remove_tokens == (removed if mode == "observe" else 0)
    assert line.turns[-1].would_remove_tokens == ready.would_remove_tokens


def test_an_edit_carries_the_number_of_the_call_that_decided_it_for_ever():
    line = Line(EAGER)
    line.turn(SEEN[:1])
    decided = line.turn(SEEN)
    again = line.turn(SEEN)
    later = line.turn([*SEEN, calls("c7"), result("c7", words("seven", 1500)), said("more"), user("and then")])

    assert decided.anchor.turn == again.anchor.turn == 2
    assert {edit.turn for edit in decided.new_edits} == {2}
    assert again.new_edits == ()
    assert again.plan == decided.plan
    assert {edit.turn for edit in later.new_edits} == {3}
    assert later.plan.edits == (*decided.plan.edits, *later.new_edits)


def test_a_history_that_can_be_read_in_two_ways_is_left_alone_and_measured():
    """Keys that stand twice: some readers take the first of them, others the last."""
    line = Line(EAGER)
    plain = a_received(SEEN).view.body
    twice = plain.replace(b'"tool_call_id":', b'"tool_call_id":"other","tool_call_id":', 1)
    assert line.prepared(None, body=plain).new_edits
    assert twice != plain
    ready = line.prepared(None, body=twice)

    assert ready.body == twice
    assert (ready.skipped, ready.new_edits, ready.sent_plan, ready.removed_tokens) == (
        "not_editable",
        (),
        EMPTY_PLAN,
        0,
    )
    assert ready.estimated == weigh_request(a_scale(), ready.received.conversation)


def test_what_was_observed_is_not_decided_again():
    line = Line(replace(EAGER, mode="observe"))
    first = line.turn(SEEN)
    second = line.turn([*SEEN, said("more"), user("and then")])

    assert second.plan == first.plan
    assert second.new_edits == ()
    assert second.context.basis == "anchored"


# Replay


def test_c21_the_same_request_ten_times_is_ten_times_the_same_bytes():
    line = Line(EAGER)
    bodies = {line.turn(SEEN).body for _ in range(10)}

    assert len(bodies) == 1
    assert bodies != {json.dumps({"model": "m", "messages": SEEN}).encode()}


def test_c47_a_retry_keeps_its_turn_number_and_overwrites_its_anchor():
    line = Line(EAGER)
    first = line.turn(SEEN)
    known = set(line.anchors)

    assert [first.anchor.turn, *(line.turn(SEEN).anchor.turn for _ in range(2))] == [1, 1, 1]
    assert set(line.anchors) == known


def test_a_retry_before_any_answer_replays_what_was_decided():
    line = Line(EAGER)
    first, second = line.prepared(SEEN), line.prepared(SEEN)

    assert second.body == first.body
    assert second.new_edits == ()
    assert second.anchor.turn == 1


def test_at_a_retry_nothing_is_decided_that_was_not_decided_before_it():
    line = Line(QUIET)
    first = line.turn(SEEN)
    again = line.prepared(SEEN, policy=EAGER)

    assert (again.body, again.new_edits, again.skipped) == (first.body, (), "retry")
    assert line.prepared([*SEEN, said(), user()], policy=EAGER).new_edits


def test_turns_count_up_and_the_session_stays():
    line = Line()
    history = rounds("a", "b", "c")
    ready = [line.turn(request) for request in agent(history)]

    assert [one.anchor.turn for one in ready] == [1, 2, 3, 4]
    assert len({one.anchor.session for one in ready}) == 1
    assert ready[0].anchor.session == session_id(ready[0].received.keys[-1])


def test_r22_marks_stay_when_nothing_is_decided_any_more():
    line = Line(EAGER)
    line.turn(SEEN)
    later = line.turn([*SEEN, said(), user()], policy=QUIET)

    assert messages_of(later.body)[2]["content"] != LONG
    assert later.new_edits == ()


def test_c22_marks_of_the_shorter_prefix_survive_a_user_who_takes_turns_back():
    line = Line(EAGER)
    line.turn(SEEN)
    longer = [*SEEN[:-1], *rounds(words("n", 3000))[1:], said(), user()]
    line.turn(longer)
    back = line.turn(SEEN, policy=QUIET)

    assert back.new_edits == ()
    assert messages_of(back.body)[2]["content"] != LONG


def test_a_fork_keeps_the_edits_of_what_it_shares_and_no_others():
    line = Line(EAGER)
    first = line.turn(SEEN)
    branch = [*SEEN, calls("x"), result("x", words("x", 2000)), said(), user("one")]
    on_branch = line.turn(branch)
    fork = line.turn([*SEEN, said("otherwise"), user("two")])

    assert len(on_branch.plan.edits) == 2
    assert fork.plan == first.plan


def test_c49_two_branches_have_each_their_own_figures():
    line = Line()
    trunk = rounds("a")
    line.turn(trunk)
    one = [*trunk, said("one"), user("x" * 4000)]
    two = [*trunk, said("two"), user("y" * 400)]
    line.turn(one)
    line.turn(two)
    first = line.turn([*one, said("done"), user("next")])
    second = line.turn([*two, said("done"), user("next")])

    assert first.context.total - second.context.total == pytest.approx(900, abs=2)
    assert first.context.basis == second.context.basis == "anchored"


def test_c48_regenerating_from_the_middle_starts_from_the_older_anchor():
    line = Line()
    history = rounds("a", "b", "c")
    ready = [line.turn(request) for request in agent(history)]
    again = line.turn([*history[:3], said("no call"), user("else")])

    assert again.context.last_input == ready[1].context.total
    assert again.anchor.turn == 3


def test_a_lost_memory_is_a_first_turn():
    line = Line(EAGER)
    line.turn(SEEN)
    line.anchors.clear()
    ready = line.turn([*SEEN, said(), user()])

    assert ready.anchor.turn == 1
    assert ready.context.basis == "estimated"


# Refusals


def test_after_a_refusal_the_original_goes_out_and_the_line_is_left_alone():
    line = Line(EAGER)
    memory = line.memory(a_received(SEEN, caller=line.caller))
    refused = line.prepared(SEEN)
    plain = as_it_came(refused, memory, line.policy, line.scale, NOTHING_LEARNED)
    line.answered(plain)
    later = line.turn([*SEEN, calls("x"), result("x", LONG), said(), user()])

    assert plain.body is refused.received.view.body
    assert plain.anchor.refused
    assert plain.anchor.plan_id == b""
    assert later.skipped == "refused"
    assert later.body is later.received.view.body


def test_original_bytes_after_another_failure_do_not_silence_the_line():
    line = Line(QUIET)
    ready = line.prepared(SEEN)
    plain = as_it_came(ready, NO_MEMORY, line.policy, line.scale, NOTHING_LEARNED)

    assert not plain.anchor.refused


# Usage


def test_c50_usage_is_asked_for_where_the_client_did_not():
    line = Line(replace(QUIET, ask_usage=True))
    ready = line.prepared([user()], stream=True)

    assert ready.asked_usage
    assert json.loads(ready.body)["stream_options"] == {"include_usage": True}
    assert not ready.changed


# Summaries


WINDOW = Policy(window=4000, max_output=500, prune=PrunePolicy(keep_recent_tool_results=100))


def test_a_history_over_the_window_needs_a_summary_now():
    ready = Line(WINDOW).prepared([*rounds(*(words(str(n), 500) for n in range(9))), said(), user("and?")])

    assert ready.need is not None
    assert ready.need.now
    assert ready.need.span.first > 0


def test_r21_an_accepted_summary_stands_and_is_replayed_for_ever():
    line = Line(WINDOW)
    history = [*rounds(*(words(str(n), 500) for n in range(9))), said(), user("and?")]
    need = line.prepared(history).need
    edit = a_summary(a_received(history), need.span.first, need.span.last, before=need.before_tokens)
    ready = line.turn(history, summary=edit)
    later = line.turn([*history, said("so"), user("then")])

    assert ready.summarised
    assert ready.need is None
    assert not ready.context.overflows
    assert ready.context.basis == "estimated"
    assert later.body.startswith(ready.body.rpartition(b"]")[0])
    assert later.context.basis == "anchored"


def test_summary_of_another_conversation_changes_nothing():
    line = Line(WINDOW)
    history = [*rounds(*(words(str(n), 500) for n in range(9))), said(), user("and?")]
    stranger = a_summary(a_received(history, caller="somebody else"), 1, 4)
    ready = line.prepared(history, summary=stranger)

    assert not ready.summarised


def test_a_later_summary_swallows_the_earlier_one_and_the_edits_under_it():
    line = Line(EAGER)
    history = [*SEEN, said(), user(), said(), user()]
    received = a_received(history)
    line.turn(history)
    line.turn(history, summary=a_summary(received, 1, 4))
    ready = line.prepared(history, summary=a_summary(received, 1, 6, text="wider"))

    assert [type(edit).__name__ for edit in ready.plan.edits] == ["Summarise"]
    assert [message["content"] for message in messages_of(ready.body)] == ["do it", "wider", "done", "go on"]


def test_observing_asks_nobody_for_a_summary():
    """The summary would be paid for and never be sent."""
    history = [*rounds(*(words(str(n), 500) for n in range(9))), said(), user("and?")]
    ready = Line(replace(WINDOW, mode="observe")).prepared(history)

    assert ready.context.overflows
    assert ready.need is None


# Laws


@settings(max_examples=60, deadline=None)
@given(texts, policies)
def test_same_inputs_make_the_same_plan_and_bytes(results, policy):
    history = [*rounds(*results), said(), user()]
    one, two = Line(policy), Line(policy)
    for request in agent(history):
        first, second = one.turn(request, now=5.0), two.turn(request, now=5.0)

        assert first.plan == second.plan
        assert first.body == second.body


@settings(max_examples=60, deadline=None)
@given(texts, policies)
def test_next_body_begins_with_this_one_unless_something_new_was_decided(results, policy):
    line = Line(policy)
    before = None
    for request in agent([*rounds(*results), said(), user()]):
        ready = line.turn(request)
        if before is not None and not ready.new_edits:
            assert ready.body.startswith(before.body.rpartition(b"]")[0])
        before = ready


@settings(max_examples=60, deadline=None)
@given(texts, policies)
def test_a_new_decision_changes_nothing_before_its_first_message(results, policy):
    line = Line(policy)
    before = None
    for request in agent([*rounds(*results), said(), user()]):
        ready = line.turn(request)
        if before is not None and ready.new_edits:
            index = {key: number for number, key in enumerate(ready.received.keys)}
            first = min(index[edit.at] for edit in ready.new_edits if isinstance(edit, Replace))

            assert common_prefix(before.body, ready.body) >= min(first, len(messages_of(before.body)))
        before = ready


@settings(max_examples=60, deadline=None)
@given(texts, policies)
def test_a_retry_is_the_same_bytes_and_the_same_turn(results, policy):
    line = Line(policy)
    for request in agent([*rounds(*results), said(), user()]):
        first, again = line.turn(request), line.turn(request)

        assert again.body == first.body
        assert again.anchor.turn == first.anchor.turn


@settings(max_examples=60, deadline=None)
@given(texts, policies)
def test_r10_the_prediction_is_the_weight_of_what_is_sent(results, policy):
    """Display, pruning, compaction and log read `context`; against a provider that counts as we do, it is exact."""
    line = Line(policy)
    for request in agent([*rounds(*results), said(), user()]):
        ready = line.prepared(request)
        sent = a_received(body=ready.body)
        actual = weigh_request(line.scale, sent.conversation)

        assert ready.context.total == pytest.approx(actual, abs=1 + len(ready.sent_plan.edits))
        answer = an_observation(usage=Usage(input_tokens=actual, output_tokens=line.scale.weigh_text("done")))
        line.answered(ready, answer)


@settings(max_examples=40, deadline=None)
@given(texts, policies)
def test_no_call_ever_loses_its_result(results, policy):
    line = Line(policy)
    for request in agent([*rounds(*results), said(), user()]):
        sent = messages_of(line.turn(request).body)
        asked = [call["id"] for message in sent for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in sent if message["role"] == "tool"]

        assert answered == asked


def test_held_out_lines_inherit_and_decide_nothing():
    line = Line(EAGER)
    line.turn(SEEN)
    received = a_received([*SEEN, calls("x"), result("x", LONG), said(), user()], caller=line.caller)
    ready = prepare(received, line.memory(received), EAGER, line.scale, now=1.0, held_out=True)

    assert len(ready.plan.edits) == 1
    assert ready.new_edits == ()


def test_an_empty_history_has_no_decisions_and_no_key():
    ready = Line(EAGER).prepared([])

    assert ready.skipped == "no_messages"
    assert ready.anchor.key == b""


def test_anchor_notes_what_the_next_turn_needs():
    line = Line(EAGER)
    ready = line.prepared(SEEN)

    assert ready.anchor.estimated == ready.context.total
    assert ready.anchor.removed_tokens == ready.removed_tokens
    assert ready.anchor.plan_id == ready.plan.plan_id()
    assert an_anchor().usage is None is ready.anchor.usage


# The seeds' rule, by its own numbers: newest 40,000 tokens of results stay, more than 20,000 must go


SEEDS = Policy(
    arrive=ArrivePolicy(enabled=False), prune=PrunePolicy(policy="always"), compact=CompactPolicy(trigger="off")
)


def cleared(*sizes):
    """Indices, among the results, of those that were replaced, and the tokens that were saved."""
    history = [*rounds(*(words(str(number), size) for number, size in enumerate(sizes))), said("read"), user("next")]
    ready = Line(SEEDS).prepared(history)
    places = [number for number, message in enumerate(history) if message["role"] == "tool"]
    index = {key: number for number, key in enumerate(ready.received.keys)}
    return [places.index(index[edit.at]) for edit in ready.new_edits], ready.removed_tokens


@pytest.mark.parametrize(
    ("sizes", "gone"),
    [
        ([10_000] * 6, []),  # C14: 20,000 could go, and that is not more than 20,000
        ([10_000] * 7, [0, 1, 2]),  # C15
        ([20_000, 40_000], []),  # C16
        ([20_001, 40_000], [0]),
    ],
)
def test_r22_c14_c15_c16_newest_results_stay_and_a_batch_must_be_large(sizes, gone):
    found, removed = cleared(*sizes)
    placeholders = removed - sum(sizes[number] for number in gone)

    assert found == gone
    assert -60 * len(gone) <= placeholders <= 0


def test_c19_a_turn_with_a_pending_call_stays():
    """A call without its result means that this turn is not ours to understand; others still are."""
    pending = [user(), calls("a", "b"), result("a", words("a", 30_000)), said()]
    later = rounds(words("b", 30_000), words("c", 41_000))[1:]
    ready = Line(SEEDS).prepared([*pending, *later, said(), user()])
    after = messages_of(ready.body)

    assert after[2]["content"] == words("a", 30_000)
    assert after[5]["content"] != words("b", 30_000)


def test_r26_what_is_chosen_is_counted_and_what_is_due_is_measured():
    """Estimates choose the results; whether the window is full is told by the provider's own count."""
    policy = Policy(
        window=100_000,
        max_output=1000,
        prune=PrunePolicy(policy="pressure", protect_tokens=1000, minimum_tokens=0),
        compact=CompactPolicy(trigger="off"),
    )
    history = rounds(words("a", 3000), words("b", 3000))
    grown = [*history, said("done"), user("next")]
    full, empty = Line(policy), Line(policy)
    full.answered(full.prepared(history), an_observation(usage=Usage(input_tokens=90_000, output_tokens=10)))
    empty.answered(empty.prepared(history), an_observation(usage=Usage(input_tokens=6_000, output_tokens=10)))

    assert [edit.tokens_before for edit in full.prepared(grown).new_edits] == [3000, 3000]
    assert empty.prepared(grown).new_edits == ()


def test_r19_steps_are_never_summed():
    """The last call's input already holds all that went before."""
    line = Line()
    history = rounds("a", "b", "c")
    for request in agent(history):
        ready = line.prepared(request)
        line.answered(ready, an_observation("", usage=Usage(input_tokens=10_000, output_tokens=10)))
    last = line.prepared([*history, said("done"), user("next")])

    assert last.context.last_input == 10_000
    assert last.context.total < 10_100


@pytest.mark.parametrize(("idle_s", "hour", "new"), [(200, False, 0), (900, False, 3), (900, True, 0), (3700, True, 3)])
def test_a_cache_that_the_client_keeps_for_an_hour_is_not_cold_after_minutes(idle_s, hour, new):
    line = Line(
        Policy(
            prices=Prices(read=0.1, write=1.25),
            prune=PrunePolicy(protect_tokens=0, minimum_tokens=0),
            compact=CompactPolicy(trigger="off"),
            horizon=1,
        )
    )
    history = rounds(*(words(f"r{number}", 1000) for number in range(3)))
    first = line.prepared([*history, said("read"), user("go on")], now=1000.0)
    sent = first.context.total
    usage = Usage(input_tokens=sent, cache_write_tokens=sent, hour_write_tokens=sent if hour else None, output_tokens=1)
    line.answered(first, an_observation("well", usage=usage))
    ready = line.prepared([*history, said("read"), user("go on"), said("well"), user("and now?")], now=1000.0 + idle_s)

    assert len(ready.new_edits) == new


@pytest.mark.parametrize(("reasoning_tokens", "skipped"), [(0, ""), (30_000, "would_not_pay")])
def test_sealed_reasoning_behind_a_result_makes_it_dearer_to_replace(reasoning_tokens, skipped):
    line = Line(QUIET)

    def ready(rounds_):
        items = [{"type": "message", "role": "user", "content": "u"}]
        for number, text in enumerate(rounds_):
            items += [
                {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "sealed"},
                {
                    "type": "function_call",
                    "call_id": f"c{number}",
                    "name": "read",
                    "arguments": "{}",
                    "id": f"fc_{number}",
                },
                {"type": "function_call_output", "call_id": f"c{number}", "output": text},
            ]
        body = json.dumps({"model": "m", "input": items}).encode()
        received = a_received(body=body, path="/v1/responses", caller=line.caller, recall=line.recall)
        memory = line.memory(received)
        return prepare(received, memory, line.policy, line.scale, now=1000.0)

    before = ready([words("old", 3000), "ok"])
    usage = Usage(input_tokens=before.context.total + reasoning_tokens, output_tokens=5)
    line.answered(before, an_observation("", usage=usage))
    line.policy = Policy(
        prices=Prices(read=0.1, write=1.0),
        prune=PrunePolicy(protect_tokens=0, minimum_tokens=0, keep_share=0.01),
        compact=CompactPolicy(trigger="off"),
        horizon=4,
    )
    after = ready([words("old", 3000), "ok", "well"])

    assert after.skipped == skipped
    assert len(after.new_edits) == (0 if skipped else 1)


def test_a_window_that_encrypted_reasoning_fills_is_compacted_though_what_can_be_read_is_short():
    line = Line(replace(QUIET, window=64_000, compact=CompactPolicy()))
    items = [{"type": "message", "role": "user", "content": "u"}]

    def ready():
        body = json.dumps({"model": "m", "input": items, "max_output_tokens": 4000}).encode()
        received = a_received(body=body, path="/v1/responses", caller=line.caller, recall=line.recall)
        return prepare(received, line.memory(received), line.policy, line.scale, now=1000.0)

    told = 100
    for number in range(6):
        usage = Usage(input_tokens=told, output_tokens=10_020, reasoning_tokens=10_000)
        line.answered(ready(), an_observation("", usage=usage))
        told += 10_600
        items += [
            {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": words(f"file{number}", 500)},
        ]
    line.answered(ready(), an_observation("", usage=Usage(input_tokens=told, output_tokens=20)))
    need = ready().need

    assert need is not None
    assert need.now
    # What the summary takes in makes room.
    assert need.before_tokens > 30_000
