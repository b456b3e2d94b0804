import json
from dataclasses import replace

import msgspec
import pytest

from proxy.compaction.policy import CompactPolicy
from proxy.compaction.prompt import INSTRUCTION
from proxy.conversation.edit import EMPTY_PLAN, Insert
from proxy.exchange.compact import (
    fresh_body,
    made_without_model,
    need_of,
    summarise_edit,
    summary_calls,
    warm_body,
)
from proxy.exchange.measure import standing_tokens
from proxy.exchange.weigh import weigh
from tests.builders import (
    a_clear,
    a_context,
    a_received,
    a_scale,
    a_summary,
    count,
    messages_of,
    plan_of,
    rounds,
    said,
    user,
    words,
)

POLICY = CompactPolicy(tail_share=0.1)
HISTORY = [*rounds(*(words(f"file{n}.py", 500) for n in range(8))), said("I have read it."), user("What now?")]
RECORD = "## Goal\nDo it.\n## Done\nRead eight files."


def a_need(plan=EMPTY_PLAN, *, history=None, policy=POLICY, window=4000, reserve=500, total=None, **fields):
    received = a_received(history or HISTORY, **fields)
    tokens = standing_tokens(weigh(received, a_scale()), plan)
    context = a_context(total=total or sum(tokens), window=window, reserve=reserve, basis="anchored")
    return received, need_of(received, plan, tokens, context, policy, 0.0)


def test_a_span_is_named_by_its_ends_and_weighed():
    received, need = a_need()

    assert need.now
    assert need.must_fit
    assert (need.first, need.last) == (received.keys[need.span.first], received.keys[need.span.last])
    assert need.before_tokens < need.history_tokens
    assert need.earlier == ""


@pytest.mark.parametrize(
    "more",
    [
        {"window": None},
        {"window": 100_000},
        {"policy": CompactPolicy(trigger="off")},
        {"history": [user(), said(), user()]},
    ],
)
def test_nothing_is_needed_where_nothing_is_due(more):
    assert a_need(**more)[1] is None


def test_near_the_limit_it_may_be_made_in_the_background():
    _, need = a_need(window=5200, reserve=500)

    assert not need.now


def test_a_limit_of_ones_own_does_not_have_to_be_kept():
    _, need = a_need(policy=CompactPolicy(trigger="share", share=0.05, tail_share=0.02), window=50_000)

    assert need.now
    assert not need.must_fit


def test_it_takes_an_earlier_summary_in():
    received = a_received(HISTORY)
    plan = plan_of(a_summary(received, 1, 4, text="what was before"))
    _, need = a_need(plan, window=2500)

    assert need.earlier == "what was before"
    assert (need.first, need.earlier_last) == (received.keys[1], 4)
    assert need.span.last > 4


def test_earlier_records_are_taken_in_together():
    received = a_received(HISTORY)
    plan = plan_of(a_summary(received, 1, 2, text="first steps"), a_summary(received, 3, 4, text="next steps"))
    _, need = a_need(plan, window=2500)

    assert need.earlier == "first steps\n\nnext steps"
    assert (need.first, need.earlier_last) == (received.keys[1], 4)


def test_records_that_leave_nothing_new_become_one_of_all_their_messages():
    received = a_received(HISTORY)
    covered = len(HISTORY) - 3
    plan = plan_of(
        *(a_summary(received, first, first + 1, text=words("steps", 300), after=300) for first in range(1, covered, 2))
    )
    _, need = a_need(plan, window=2000)
    (told,) = summary_calls(need, received, count, 8_000)

    assert need.now
    assert (need.span.first, need.span.last) == (1, covered)
    assert (need.earlier, need.reaches) == ("", covered)
    assert all(f"file{number}.py" in told for number in range(8))
    assert a_need(plan_of(a_summary(received, 1, covered, text=words("all", 1500), after=1500)), window=2000)[1] is None


@pytest.mark.parametrize(
    ("after", "by_model", "is_due"), [(1500, False, True), (300, False, False), (1500, True, False)]
)
def test_one_long_record_of_steps_becomes_a_summary_though_nothing_new_stands_behind_it(after, by_model, is_due):
    received = a_received(HISTORY)
    covered = len(HISTORY) - 3
    record = msgspec.structs.replace(
        a_summary(received, 1, covered, text=words("all", after), after=after), by_model=by_model
    )
    need = a_need(plan_of(record), window=2000, total=1900)[1]

    assert (need is not None) == is_due


def test_a_limit_of_the_input_alone_is_kept_though_the_window_has_room():
    received = a_received(HISTORY)
    tokens = standing_tokens(weigh(received, a_scale()), EMPTY_PLAN)

    def needed(**limits):
        context = a_context(total=sum(tokens), window=8_000, reserve=500, basis="anchored", **limits)
        return need_of(received, EMPTY_PLAN, tokens, context, POLICY, 0.0)

    assert needed() is None
    assert needed(max_input=4_000).now
    assert not needed(max_input=4_000).can_wait
    assert not needed(max_input=1_000).fits_warm


def test_a_conversation_over_the_window_cannot_be_asked_itself():
    assert not a_need()[1].fits_warm
    assert a_need(window=20_000, policy=CompactPolicy(trigger="share", share=0.1, tail_share=0.1))[1].fits_warm


def test_warm_call_is_the_body_as_it_last_went_out_with_a_question_behind_it():
    received = a_received(HISTORY, stream=True, temperature=0)
    plan = plan_of(a_clear(received, 2, text="[gone]"), a_clear(received, len(HISTORY) - 3, text="[in the tail]"))
    _, need = a_need(plan, stream=True, temperature=0)
    body = warm_body(need, received, plan)
    messages = messages_of(body)

    assert messages[:2] == HISTORY[:2]
    assert messages[2]["content"] == "[gone]"
    assert len(messages) == need.span.last + 2
    assert messages[-1]["content"].startswith(INSTRUCTION)
    assert "stream" not in json.loads(body)
    assert b"in the tail" not in body


def test_the_warm_call_has_the_breakpoints_without_which_nothing_would_be_read():
    received = a_received([user(words(f"m{number}", 200)) for number in range(9)], path="/v1/messages", max_tokens=100)
    need = replace(a_need()[1], span=replace(a_need()[1].span, first=1, last=5))
    plain = warm_body(need, received, EMPTY_PLAN)
    marked = warm_body(need, received, EMPTY_PLAN, auto_cache=True)

    assert b"cache_control" not in plain
    assert marked == received.dialect.mark_cache(plain)
    assert [isinstance(message["content"], list) for message in messages_of(marked)] == [False] * 5 + [True] * 2


def test_the_warm_call_is_marked_where_the_client_had_marked_its_end():
    history = [user(words(f"m{number}", 200)) for number in range(9)]
    history[-1] = {"role": "user", "content": [{"type": "text", "text": "z", "cache_control": {"type": "ephemeral"}}]}
    received = a_received(history, path="/v1/messages", max_tokens=100)
    need = replace(a_need()[1], span=replace(a_need()[1].span, first=1, last=5))
    messages = messages_of(warm_body(need, received, EMPTY_PLAN))

    assert [isinstance(message["content"], list) for message in messages] == [False] * 5 + [True, False]
    assert messages[5]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_queued_messages_stand_in_the_warm_call_too():
    received = a_received(HISTORY)
    plan = plan_of(Insert(after=received.keys[2], text="by the way", tokens_after=6))
    _, need = a_need(plan)

    assert "by the way" in [message.get("content") for message in messages_of(warm_body(need, received, plan))]
    assert "by the way" in summary_calls(need, received, count, None)[0]


def test_call_of_its_own_holds_what_the_earlier_record_does_not():
    received = a_received(HISTORY)
    plan = plan_of(a_summary(received, 1, 4, text="what was before"))
    _, need = a_need(plan, window=2500)
    (history,) = summary_calls(need, received, count, None)
    body = json.loads(fresh_body(need, received, CompactPolicy(model="small"), history, need.earlier, None))

    assert body["model"] == "small"
    assert "file0.py" not in history
    assert "file3.py" in history
    assert "what was before" in body["messages"][-1]["content"]


def test_call_of_its_own_goes_to_the_conversations_model_where_none_is_named():
    received, need = a_need()
    body = json.loads(fresh_body(need, received, POLICY, "talk", "", None))

    assert body["model"] == "m"


def test_a_small_reader_gets_a_small_question():
    received, need = a_need()
    pieces = summary_calls(need, received, count, 2000)

    assert 1 <= len(pieces) <= 4
    assert all(count(piece) < 2000 for piece in pieces)


@pytest.mark.parametrize("window", [3_000, 4_000])
def test_each_of_several_questions_fits_the_reader_with_the_answer_before_it_and_its_own(window):
    history = [
        *rounds(*(words(f"file{number}.py", 900) for number in range(60))),
        said("I have read it."),
        user("Now?"),
    ]
    received, need = a_need(history=history, window=60_000)
    pieces = summary_calls(need, received, count, window)
    earlier, largest = need.earlier, 0
    for piece in pieces:
        body = json.loads(fresh_body(need, received, POLICY, piece, earlier, window))
        answer = body["max_tokens"]
        largest = max(largest, sum(count(message["content"]) for message in body["messages"]) + answer)
        earlier = words("so far", answer)

    assert len(pieces) > 1
    assert 0.7 * window < largest <= window


def test_c53_an_accepted_summary_covers_exactly_the_span():
    received, need = a_need()
    edit, verdict = summarise_edit(need, received, RECORD, finished=True, by_model=True, count=count)

    assert verdict.accepted
    assert (edit.first, edit.last) == (need.first, need.last)
    assert RECORD in edit.text
    assert edit.tokens_after == count(edit.text) + 4
    assert edit.tokens_before == need.before_tokens


@pytest.mark.parametrize(
    ("text", "finished", "reason"),
    [("", True, "empty"), (RECORD, False, "unfinished"), (words("long", 6000), True, "not_smaller")],
)
def test_c53_a_bad_summary_is_no_edit(text, finished, reason):
    received, need = a_need()
    edit, verdict = summarise_edit(need, received, text, finished=finished, by_model=True, count=count)

    assert edit is None
    assert verdict.reason == reason


def test_what_the_user_said_stands_beside_every_summary():
    history = [user("a"), said("b"), user("Never touch legacy/."), *HISTORY[1:]]
    received, need = a_need(history=history)
    edit, _ = summarise_edit(need, received, RECORD, finished=True, by_model=True, count=count)

    assert "Never touch legacy/." in edit.text


def test_what_the_system_said_in_between_stands_beside_every_summary():
    history = [user("a"), {"role": "system", "content": "You work in /repo."}, *HISTORY[1:]]
    received, need = a_need(history=history)
    edit, _ = summarise_edit(need, received, RECORD, finished=True, by_model=True, count=count)

    assert "You work in /repo." in edit.text


def test_the_record_without_a_model_is_a_fifth_of_the_span_and_the_same_every_time():
    received, need = a_need()
    text = made_without_model(need, received, count)

    assert 0 < count(text) <= max(200, need.before_tokens // 5)
    assert text == made_without_model(need, received, count)
    assert summarise_edit(need, received, text, finished=True, by_model=False, count=count)[0] is not None
