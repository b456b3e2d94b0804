"""Early compaction: records of old steps, where they pay."""

import pytest

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import EMPTY_PLAN, Insert, Plan, Summarise
from proxy.conversation.model import Media, Opaque, Reasoning, Text
from proxy.exchange.early import absorbed, early_record
from proxy.exchange.policy import Policy
from proxy.pruning.policy import PrunePolicy
from proxy.pruning.situation import Prices
from tests.builders import Line, messages_of
from tests.builders import rounds as wire_rounds
from tests.builders import said as wire_said
from tests.builders import user as wire_user
from tests.pruning.builders import a_message, a_situation, answered, call, result, rounds, taken_in, user, words

PRICES = Prices(read=0.1, write=1.25)
EARLY = CompactPolicy(early=True, early_tail_tokens=3000)
STEPS = [words(f"path/file_{n}.py", 1000) for n in range(20)]


def situation_of(messages, plan=EMPTY_PLAN, **more):
    return a_situation(messages, plan, **{"prices": None, "expected_turns": 20.0, **more})


def a_record(messages=None, plan=EMPTY_PLAN, policy=EARLY, **more):
    return early_record(situation_of(messages or answered(rounds(*STEPS)), plan, **more), policy)


def span_of(record, situation):
    place = {key: index for index, key in enumerate(situation.keys)}
    return place[record.first], place[record.last]


def test_old_steps_go_and_the_first_request_and_the_tail_stay():
    situation = situation_of(answered(rounds(*STEPS)))
    record = early_record(situation, EARLY)
    first, last = span_of(record, situation)

    assert first == 1
    assert sum(situation.message_tokens[last + 1 :]) <= 3000
    assert not record.by_model
    assert record.tokens_after < record.tokens_before / 4
    assert record.decided == len(situation.messages)


@pytest.mark.parametrize(("count", "steps"), [(20, 1), (200, 10)])
def test_where_much_is_put_in_short_somebody_else_has_a_turn_in_between(count, steps):
    situation = situation_of(answered(rounds(*(words(f"path/file_{n}.py", 1000) for n in range(count)))))
    taken = list(taken_in(early_record.steps(situation, EARLY)))

    assert len(taken) > steps
    assert taken[-1] == early_record(situation, EARLY)


def test_the_record_names_what_stood_there():
    assert "path/file_3.py" in a_record().text


def test_results_of_protected_tools_are_told_in_it():
    situation = situation_of(answered(rounds(*STEPS)))

    assert "→" not in early_record(situation, EARLY).text
    assert f"→ {STEPS[3][:1000]}" in early_record(situation, EARLY, ("rea*",)).text


def test_the_same_history_gives_the_same_record():
    assert a_record() == a_record()


def test_the_next_record_stands_behind_the_one_before_it():
    messages = answered(rounds(*STEPS, *STEPS))
    situation = situation_of(messages)
    early = early_record(situation_of(answered(messages[:41])), EARLY)
    record = early_record(situation_of(messages, Plan((early,))), EARLY)
    place = {key: index for index, key in enumerate(situation.keys)}

    assert place[record.first] == place[early.last] + 1


@pytest.mark.parametrize(
    "more",
    [
        {"policy": CompactPolicy()},
        {"policy": CompactPolicy(early=True, trigger="off")},
        {"policy": CompactPolicy(early=True, early_tail_tokens=30_000)},
        {"messages": answered(rounds(*STEPS[:5]))},
        {"prices": PRICES, "expected_turns": 0.5},
        {"prices": Prices(read=0.1, write=1.25, minimum=1_000_000)},
        {"bound": 41},
    ],
    ids=["not wished", "off", "all is tail", "too little", "no future", "too short for the cache", "signed reasoning"],
)
def test_nothing_happens_where_it_is_not_wished_not_allowed_or_does_not_pay(more):
    assert a_record(**more) is None


def test_a_record_never_costs_more_at_once_than_the_purse_holds():
    # The first calls were short, so hardly anything was paid or saved yet.
    messages = answered([user(), call("c"), result("c", words("a", 20_000)), call("d"), result("d", words("b", 4000))])

    assert a_record(messages, prices=PRICES, expected_turns=60.0) is None
    assert a_record(messages, prices=PRICES, expected_turns=60.0, cold=True) is not None


@pytest.mark.parametrize(
    ("kept", "first"),
    [
        (a_message("user", Media(kind="image")), 12),
        # With the answer to them: Anthropic takes no message of the user behind them.
        (a_message("system", Text(text="from now on, be brief")), 14),
        (a_message("user", Opaque(kind="unknown", size_chars=9)), 12),
    ],
)
def test_instructions_attachments_and_what_we_cannot_read_stay(kept, first):
    messages = rounds(*STEPS)
    messages.insert(11, kept)
    situation = situation_of(answered(messages))

    assert span_of(early_record(situation, EARLY), situation)[0] == first


def test_calls_and_results_are_never_parted():
    messages = [user(), *(message for n in range(6) for message in parallel(n))]
    situation = situation_of(answered(messages))
    first, last = span_of(early_record(situation, EARLY), situation)

    assert messages[first].role == "assistant"
    assert messages[last + 1].role == "assistant"


def test_a_record_behind_a_call_that_must_stay_leaves_its_result_alone_too():
    messages = answered(rounds(*STEPS))
    messages[11] = a_message("assistant", *messages[11].parts, Opaque(kind="unknown", size_chars=9))
    situation = situation_of(messages)

    assert span_of(early_record(situation, EARLY), situation)[0] == 13


def parallel(n):
    """An answer with reasoning, two calls and their results."""
    made = (*call(f"a{n}").parts, *call(f"b{n}").parts)
    yield a_message("assistant", Reasoning(text="hm"), *made)
    yield result(f"a{n}", words(f"a{n}", 1000))
    yield result(f"b{n}", words(f"b{n}", 1000))


def test_what_was_queued_and_said_stays_in_the_record():
    messages = answered(rounds(*STEPS))
    insert = Insert(after=situation_of(messages).keys[4], text="and hurry up", tokens_after=5)

    assert "User: and hurry up" in a_record(messages, Plan((insert,))).text


def test_a_summary_swallows_the_edits_inside_it_but_not_what_was_queued():
    situation = situation_of(answered(rounds(*STEPS)))
    record = early_record(situation, EARLY)
    index = {key: number for number, key in enumerate(situation.keys)}
    insert = Insert(after=situation.keys[4], text="x", tokens_after=1)

    assert absorbed(Plan((record, insert)), record, index).edits == (insert, record)
    assert absorbed(Plan((insert,)), record, {}).edits == (insert,)


def test_a_record_goes_out_and_stays_the_same_on_later_calls():
    policy = Policy(compact=EARLY, prune=PrunePolicy(policy="pressure"), prices=PRICES, window=200_000, horizon=40)
    line = Line(policy)
    history = wire_rounds(*STEPS, *STEPS)
    bodies = [line.turn(history[:end]) for end in range(1, len(history) + 1, 2)]
    last = line.turn([*history, wire_said("read"), wire_user("so?")])
    records = [edit for edit in last.plan.edits if edit.text.startswith("[")]

    assert len(records) > 1
    assert last.summarised
    assert last.new_edits == ()
    assert last.context.basis == "anchored"
    assert messages_of(last.body)[1]["content"] == records[0].text
    assert messages_of(bodies[-1].body) == messages_of(last.body)[: len(messages_of(bodies[-1].body))]


def test_the_users_own_protected_tools_count_for_records_too():
    prune = PrunePolicy(policy="pressure", protected_tools=("read",))
    line = Line(Policy(compact=EARLY, prune=prune, prices=PRICES, window=200_000, horizon=40))
    history = wire_rounds(*STEPS, *STEPS)
    for end in range(1, len(history) + 1, 2):
        last = line.turn(history[:end])

    (record,) = (edit for edit in last.plan.edits if isinstance(edit, Summarise))
    assert "\n→ path/file_0.py lorem" in record.text
