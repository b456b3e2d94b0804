import json
from dataclasses import replace

import pytest

from proxy.compaction.policy import CompactPolicy
from proxy.conversation.edit import EMPTY_PLAN, Insert, Plan
from proxy.exchange.compact import made_without_model, need_of, summary_calls, warm_body
from proxy.exchange.measure import standing_tokens
from proxy.exchange.prepare import prepare
from proxy.exchange.queue import said
from proxy.exchange.receive import NO_MEMORY, Memory
from proxy.exchange.weigh import weigh
from proxy.ledger.records import Queued
from proxy.tokens.context import Present, context_size
from tests.builders import (
    QUIET,
    a_received,
    a_scale,
    a_summary,
    an_anchor,
    calls,
    count,
    messages_of,
    result,
    rounds,
    user,
    words,
)
from tests.builders import said as answered

HISTORY = [user("do it"), calls("c1", "c2"), result("c1", "one"), result("c2", "two")]
FIRST, SECOND = Queued(id="q1", text="also the tests", at=1.0), Queued(id="q2", text="and the docs", at=2.0)


def prepared(received, *queued, memory=NO_MEMORY, policy=QUIET, **more):
    return prepare(received, memory, policy, a_scale(), now=1000.0, queued=queued, **more)


def under(plan):
    """Memory of a call with this history's prefix that had this plan."""
    return Memory(line=an_anchor(plan_id=plan.plan_id()), line_at=3, plan=plan)


def test_r24_the_message_stands_behind_the_tool_results():
    ready = prepared(a_received(HISTORY), FIRST)

    assert messages_of(ready.body) == [*HISTORY, {"role": "user", "content": "also the tests"}]


def test_c57_two_messages_become_one():
    ready = prepared(a_received(HISTORY), FIRST, SECOND)

    (edit,) = ready.new_edits
    assert messages_of(ready.body)[-1] == {"role": "user", "content": "also the tests\n\nand the docs"}
    assert said(ready.plan) == {"q1", "q2"}
    assert isinstance(edit, Insert)


def test_what_a_plan_says_already_is_not_said_again():
    before = prepared(a_received(HISTORY), FIRST)
    longer = [*HISTORY, answered("fine"), user("next")]
    ready = prepared(a_received(longer), FIRST, memory=under(before.plan))

    assert ready.new_edits == ()
    assert json.dumps(messages_of(ready.body)).count("also the tests") == 1


def test_the_same_request_once_more_adds_only_what_is_new():
    before = prepared(a_received(HISTORY), FIRST)
    ready = prepared(a_received(HISTORY), FIRST, SECOND, memory=under(before.plan))

    assert [message["content"] for message in messages_of(ready.body)[-2:]] == ["also the tests", "and the docs"]


def test_the_bytes_before_it_are_the_clients_own():
    received = a_received(HISTORY)
    ready = prepared(received, FIRST)

    assert ready.body.startswith(received.view.body[: received.view.spans[-1][1]])


def test_it_is_counted_in_the_prediction():
    plain, ready = prepared(a_received(HISTORY)), prepared(a_received(HISTORY), FIRST)

    assert ready.context.total - plain.context.total == count("also the tests") + 4


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_while_nothing_is_changed_nothing_is_said(mode):
    received = a_received(HISTORY)
    ready = prepared(received, FIRST, policy=replace(QUIET, mode=mode))
    assert ready.body == received.view.body
    assert said(ready.plan) == frozenset()


def test_a_system_message_at_the_end_stays_the_end():
    """Behind it Anthropic takes nothing but the answer."""
    last = {"role": "system", "content": "be brief"}
    ready = prepared(a_received([*HISTORY, last]), FIRST)

    assert messages_of(ready.body) == [*HISTORY, {"role": "user", "content": "also the tests"}, last]
    alone = prepared(a_received([user(), answered("fine"), last]), FIRST)
    assert messages_of(alone.body)[-1] == {"role": "user", "content": "also the tests"}


def test_an_answer_that_the_client_has_begun_is_not_interrupted():
    received = a_received([user(), answered("Once upon")])

    assert prepared(received, FIRST).body == received.view.body


def test_code_that_waits_for_its_results_is_not_interrupted():
    """Anthropic, "Programmatic tool calling": a message that answers code holds results and nothing else."""
    run = {"type": "server_tool_use", "id": "s", "name": "code_execution", "input": {"code": "await read()"}}
    asks = {
        "type": "tool_use",
        "id": "t",
        "name": "read",
        "input": {},
        "caller": {"type": "code_execution_20260120", "tool_id": "s"},
    }
    answers = {"type": "tool_result", "tool_use_id": "t", "content": "one"}
    done = {
        "type": "code_execution_tool_result",
        "tool_use_id": "s",
        "content": {"type": "code_execution_result", "stdout": "1"},
    }
    running = [user("do it"), answered([run, asks]), user([answers])]
    goes_on = [*running, answered([done, {"type": "text", "text": "1"}]), user("thanks")]

    assert prepared(a_received(running, path="/v1/messages"), FIRST).new_edits == ()
    assert [edit.text for edit in prepared(a_received(goes_on, path="/v1/messages"), FIRST).new_edits] == [FIRST.text]


def test_where_the_provider_refused_a_change_messages_wait():
    memory = Memory(line=an_anchor(refused=True), line_at=0)
    received = a_received(HISTORY)

    assert prepared(received, FIRST, memory=memory).body == received.view.body


def test_a_conversation_that_is_held_out_hears_its_user():
    assert said(prepared(a_received(HISTORY), FIRST, held_out=True).plan) == {"q1"}


def test_a_fork_before_it_does_not_hear_it():
    before = prepared(a_received(HISTORY), FIRST)
    fork = [*HISTORY[:3], result("c2", "something else")]

    assert said(prepared(a_received(fork), memory=under(before.plan)).sent_plan) == frozenset()


def test_without_messages_there_is_no_edit():
    assert prepared(a_received(HISTORY)).plan == EMPTY_PLAN


# Summaries


def a_need(received, plan):
    """A summary that is due, with all but the tail in its span."""
    weighed = weigh(received, a_scale())
    tokens = standing_tokens(weighed, plan)
    context = context_size(Present(system=0, tools=0, new=sum(tokens)), window=2_000, reserve=200)
    return need_of(received, plan, tokens, context, CompactPolicy(), 0.0)


def said_early():
    """A long history with a message that was said behind its second message."""
    received = a_received(rounds(*(words(f"r{number}", 700) for number in range(5))))
    plan = Plan((Insert(after=received.keys[2], text="never touch main.py", tokens_after=9, ids=("q1",)),))
    return received, plan, a_need(received, plan)


def test_a_summary_is_told_what_was_said_in_its_span():
    received, _, need = said_early()
    histories = "\n".join(summary_calls(need, received, count, 100_000))

    assert need.span.last >= 2
    assert histories.count("never touch main.py") == 1


def test_a_record_without_a_model_keeps_what_was_said():
    received, _, need = said_early()

    assert "never touch main.py" in made_without_model(need, received, count)


def test_a_summary_call_on_the_warm_prefix_has_what_was_said():
    received, plan, need = said_early()
    body = messages_of(warm_body(need, received, plan))

    assert body[3] == {"role": "user", "content": "never touch main.py"}


def test_what_is_said_at_the_end_of_the_span_comes_before_the_instruction():
    received, _, need = said_early()
    plan = Plan((Insert(after=received.keys[need.span.last], text="the last word", tokens_after=9, ids=("q2",)),))
    body = messages_of(warm_body(need, received, plan))

    assert body[-2]["content"] == "the last word"


def test_a_summary_hides_what_it_covers_and_the_plan_still_knows_it():
    received, plan, need = said_early()
    summary = a_summary(received, need.span.first, need.span.last)
    ready = prepared(received, FIRST, memory=under(plan), summary=summary)

    assert "never touch main.py" not in json.dumps(messages_of(ready.body))
    assert said(ready.plan) == {"q1"}


def test_where_roles_must_alternate_a_message_waits():
    ready = prepared(a_received(HISTORY), FIRST, policy=replace(QUIET, alternates=True))

    assert messages_of(ready.body) == HISTORY
    assert said(ready.plan) == set()
