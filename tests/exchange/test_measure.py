import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.conversation.edit import EMPTY_PLAN, Insert, Plan, StripReasoning, Summarise
from proxy.dialects import dialect_for
from proxy.dialects.lens import apply_plan
from proxy.exchange.measure import (
    compacted_since,
    formula_inputs,
    reply_end,
    standing_reasoning,
    standing_tokens,
)
from proxy.exchange.receive import NO_MEMORY
from proxy.exchange.weigh import weigh
from proxy.tokens.context import context_size
from proxy.tokens.learn import NOTHING_LEARNED
from proxy.tokens.usage import Usage
from tests.builders import (
    Line,
    a_clear,
    a_received,
    a_scale,
    a_summary,
    an_observation,
    calls,
    count,
    plan_of,
    result,
    rounds,
    said,
    user,
    weigh_request,
    words,
)

HISTORY = [*rounds(*(words(str(n), 100) for n in range(5))), said("read"), user("next")]
RESULTS = [2, 4, 6, 8, 10]
MESSAGE = 4
"""Overhead of a chat message."""


def a_cut(received, at, text):
    edit = a_clear(received, at, text=text)
    return type(edit)(**{name: getattr(edit, name) for name in edit.__struct_fields__} | {"tokens_after": count(text)})


def a_span(received, first, last, text):
    return a_summary(received, first, last, text=text, after=count(text) + MESSAGE)


def an_insert(received, at, text):
    return Insert(after=received.keys[at], text=text, tokens_after=count(text) + MESSAGE)


def goes_out(received, plan):
    view = received.view
    return a_received(body=apply_plan(dialect_for("/v1/chat/completions"), view, received.keys, plan).body)


edits = st.lists(
    st.one_of(
        st.tuples(st.just("cut"), st.sampled_from(RESULTS), st.text("ab ", min_size=1, max_size=30)),
        st.tuples(st.just("insert"), st.integers(0, 12), st.text("ab", min_size=1, max_size=30)),
        st.tuples(st.just("span"), st.tuples(st.integers(0, 12), st.integers(0, 12)), st.text("ab", min_size=1)),
    ),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(edits)
def test_r10_tokens_under_a_plan_are_those_of_what_goes_out(wanted):
    received, scale = a_received(HISTORY), a_scale()
    made = []
    for kind, where, text in wanted:
        match kind:
            case "cut":
                made.append(a_cut(received, where, text))
            case "insert":
                made.append(an_insert(received, where, text))
            case _:
                made.append(a_span(received, min(where), max(where), text))
    plan = Plan(tuple(made))
    sent = goes_out(received, plan)

    assert sum(standing_tokens(weigh(received, scale), plan)) == scale.weigh_messages(sent.conversation.messages)


def test_without_a_plan_each_message_weighs_what_it_weighs():
    received, scale = a_received(HISTORY), a_scale()

    assert standing_tokens(weigh(received, scale), EMPTY_PLAN) == [
        scale.weigh(message).total for message in received.conversation.messages
    ]


def test_edits_of_another_branch_weigh_nothing():
    received, scale = a_received(HISTORY), a_scale()
    stranger = a_received([user("other"), *HISTORY[1:]])
    plan = plan_of(a_clear(stranger, 2), a_summary(stranger, 1, 4))

    assert standing_tokens(weigh(received, scale), plan) == standing_tokens(weigh(received, scale), EMPTY_PLAN)


def test_reasoning_counts_where_it_goes_out():
    history = [
        user(),
        said("a", reasoning_content=words("t", 50)),
        user(),
        said("b", reasoning_content=words("t", 30)),
        user(),
    ]
    received = a_received(history)
    weighed = weigh(received, a_scale())
    strip = StripReasoning(at=received.keys[1], tokens_before=50)

    assert standing_reasoning(weighed, EMPTY_PLAN) == 80
    assert standing_reasoning(weighed, plan_of(strip)) == 30
    assert standing_reasoning(weighed, plan_of(a_summary(received, 0, 2))) == 30


# The formula, fed from memory


def measured(line, history, answer="done", **usage):
    """The call is answered with this usage; gives the request that follows."""
    ready = line.prepared(history)
    line.answered(ready, an_observation(answer, usage=Usage(**usage)))


def size(line, history, **fields):
    return line.prepared(history, **fields).context


def test_c1_r3_last_input_and_last_output_and_everything_behind_the_reply():
    line = Line()
    measured(line, [user("x" * 20_000)], input_tokens=5000, output_tokens=100)
    context = size(line, [user("x" * 20_000), said("done"), user("y" * 44)])

    assert (context.last_input, context.last_output_resent) == (5000, 100)
    # 11 tokens of text, the envelope of the new message and of the reply that came back.
    assert context.total == 5000 + 100 + 11 + 2 * MESSAGE
    assert context.basis == "anchored"


def test_r3_a_reply_that_came_back_altered_in_white_space_is_still_the_reply():
    line = Line()
    measured(line, [user("x" * 4000)], answer="it is\ndone", input_tokens=1000, output_tokens=100)
    context = size(line, [user("x" * 4000), said("it is done  "), user("y")])

    assert context.last_output_resent == 100


def test_another_answer_than_ours_is_as_new_as_the_rest():
    line = Line()
    measured(line, [user("x" * 4000)], input_tokens=1000, output_tokens=100)
    context = size(line, [user("x" * 4000), said("z" * 400), user("y")])

    assert context.last_output_resent == 0
    assert context.total == 1000 + 100 + MESSAGE + 1 + MESSAGE


@pytest.mark.parametrize(("carried", "resent"), [(False, 600), (True, 3000)])
def test_r11_r29_c44_reasoning_counts_exactly_where_the_request_carries_it(carried, resent):
    line = Line()
    asked = [user("x" * 40_000)]
    measured(line, asked, input_tokens=10_000, output_tokens=3000, reasoning_tokens=2400)
    back = said("done", reasoning_content="because") if carried else said("done")

    assert size(line, [*asked, back, user("y")]).last_output_resent == resent


def test_c45_of_several_choices_the_one_that_returned_counts():
    line = Line()
    ready = line.prepared([user("x" * 4000)], n=2)
    both = [an_observation(text).replies[0] for text in ("short", "a longer one")]
    shares = [
        type(one)(fingerprint=one.fingerprint, share=share) for one, share in zip(both, (1 / 3, 2 / 3), strict=True)
    ]
    line.answered(ready, an_observation(usage=Usage(input_tokens=1000, output_tokens=300), replies=tuple(shares)))

    assert size(line, [user("x" * 4000), said("short"), user("y")], n=2).last_output_resent == 100
    assert size(line, [user("x" * 4000), said("a longer one"), user("y")], n=2).last_output_resent == 200


def test_c26_new_edits_come_off_what_the_anchor_measured():
    """100,000 + 500 + 100 − 29,976: three results of 10,000 became placeholders of 8."""
    line = Line()
    history = rounds(*(words(str(n), 10_000) for n in range(3)))
    measured(line, history, input_tokens=100_000, output_tokens=500)
    grown = [*history, said("done"), user("y" * 368)]
    received = a_received(grown, caller=line.caller)
    memory = line.memory(received)
    weighed = weigh(received, line.scale)
    plan = plan_of(*(a_cut(received, at, "[" + "-" * 30 + "]") for at in (2, 4, 6)))
    inputs = formula_inputs(
        received, memory, weighed, plan, standing_tokens(weighed, plan), line.scale, NOTHING_LEARNED
    )

    assert context_size(inputs.present, inputs.last).total == 70_624
    assert inputs.edited


def test_edits_take_out_no_more_than_there_was_where_we_count_more_than_the_provider():
    line = Line()
    history = rounds(*(words(str(n), 10_000) for n in range(3)))
    measured(line, history, input_tokens=20_000, output_tokens=500)
    grown = [*history, said("done"), user("y" * 368)]
    received = a_received(grown, caller=line.caller)
    weighed = weigh(received, line.scale)
    plan = plan_of(*(a_cut(received, at, "[" + "-" * 30 + "]") for at in (2, 4, 6)))
    now = standing_tokens(weighed, plan)
    inputs = formula_inputs(received, line.memory(received), weighed, plan, now, line.scale, NOTHING_LEARNED)
    context = context_size(inputs.present, inputs.last)

    assert context.total == sum(now) // 2 > 0
    assert context.last_input + context.last_output_resent + context.new + context.corrections == context.total


def test_r8_c52_system_and_tools_count_at_once():
    line = Line()
    history = [{"role": "system", "content": "s"}, user("x" * 4000)]
    measured(line, history, input_tokens=1000, output_tokens=10)
    longer = [{"role": "system", "content": "s" * 4001}, user("x" * 4000), said("done"), user("y")]
    same = [history[0], *longer[1:]]

    assert size(line, longer).total - size(line, same).total == 1000


def test_r6_without_memory_everything_is_estimated():
    line = Line()
    received = a_received([user("x" * 400)])
    weighed = weigh(received, line.scale)
    inputs = formula_inputs(
        received, NO_MEMORY, weighed, EMPTY_PLAN, standing_tokens(weighed, EMPTY_PLAN), line.scale, NOTHING_LEARNED
    )

    assert inputs.last is None
    assert (
        context_size(inputs.present, None).total
        == weigh_request(line.scale, received.conversation)
        == 100 + MESSAGE + 3
    )


def test_r7_after_a_compaction_the_old_usage_says_nothing():
    line = Line()
    line.turn(HISTORY)
    received = a_received([*HISTORY, said("done"), user("y")], caller=line.caller)
    memory = line.memory(received)
    edit = a_summary(received, 1, 8)
    plan = plan_of(edit)
    weighed = weigh(received, line.scale)
    inputs = formula_inputs(
        received, memory, weighed, plan, standing_tokens(weighed, plan), line.scale, NOTHING_LEARNED
    )

    assert isinstance(edit, Summarise)
    assert compacted_since(plan, memory)
    assert not compacted_since(EMPTY_PLAN, memory)
    assert inputs.last is None


def test_another_model_is_not_measured_by_this_ones_counts():
    line = Line()
    line.turn(HISTORY)
    context = size(line, [*HISTORY, said("done"), user("y")], model="other")

    assert context.basis == "estimated"


def test_media_in_what_is_new_is_noted():
    line = Line()
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    line.turn([user("look")])
    with_picture = line.prepared([user("look"), said("done"), {"role": "user", "content": [picture]}])
    line.answered(with_picture, an_observation(usage=Usage(input_tokens=900, output_tokens=5)))
    later = line.prepared(
        [*[user("look"), said("done"), {"role": "user", "content": [picture]}], said("done"), user("y")]
    )

    assert with_picture.inputs.has_media
    assert not later.inputs.has_media


@pytest.mark.parametrize(("at", "end"), [(0, 1), (1, 2), (2, 5), (-1, 0)])
def test_an_answer_may_be_a_run_of_messages(at, end):
    messages = a_received([user(), calls("a"), result("a"), said("x"), said("y"), user()]).conversation.messages

    assert reply_end(messages, at) == (end if at != 0 else 2)
