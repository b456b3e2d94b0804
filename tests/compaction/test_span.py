from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.compaction.policy import CompactPolicy
from proxy.compaction.span import choose_span, words
from proxy.conversation.model import Reasoning, Text, ToolCall, ToolResult
from tests.builders import a_message

POLICY = CompactPolicy()


def call(*call_ids):
    parts = tuple(ToolCall(call_id=call_id, name="read", arguments="{}") for call_id in call_ids)
    return a_message("assistant", parts=parts)


def result(call_id):
    return a_message("tool", parts=(ToolResult(call_id=call_id, text="x"),))


def agent(rounds, asked="do it"):
    messages = [a_message("user", asked)]
    for number in range(rounds):
        messages += [call(f"c{number}"), result(f"c{number}")]
    return messages


def span_of(messages, tokens, usable=10_000, policy=POLICY, **more):
    return choose_span(messages, tokens, policy, usable, **more)


def test_the_old_part_goes_and_the_newest_messages_stay():
    messages = [*agent(6), a_message("assistant", "ok"), a_message("user", "and now?")]
    span = span_of(messages, [10, *[100, 900] * 6, 10, 10])

    assert (span.first, span.last) == (1, 8)
    assert span.quote == ""


def test_the_tail_is_no_larger_than_its_share():
    messages = [*agent(20), a_message("user", "and now?")]
    tokens = [10, *[10, 490] * 20, 10]
    span = span_of(messages, tokens)

    assert sum(tokens[span.last + 1 :]) <= 2_500


def test_r27_a_parallel_set_is_never_parted():
    messages = [a_message("user"), call("a", "b", "c"), result("a"), result("b"), result("c"), a_message("user", "so?")]
    span = span_of(messages, [10, 10, 3000, 3000, 10, 10], policy=CompactPolicy(keep_recent_messages=1, tail_share=0.4))

    assert (span.first, span.last) == (1, 4)


def test_so_many_newest_messages_stay_whatever_their_size():
    messages = [*agent(3), *[a_message(role) for role in ("assistant", "user") * 3]]
    span = span_of(messages, [9000] * len(messages), policy=CompactPolicy(keep_recent_messages=4))

    assert span.last <= len(messages) - 5


def test_a_long_first_message_goes_too():
    messages = [a_message("user", "long"), *agent(4)[1:], a_message("assistant"), a_message("user", "now?")]
    tokens = [4000, *[10, 900] * 4, 10, 10]

    assert span_of(messages, tokens).first == 0
    assert span_of(messages, [400, *tokens[1:]]).first == 1


def test_the_only_thing_the_user_ever_said_stays_in_front_even_when_it_is_long():
    assert span_of(agent(8), [4000, *[10, 900] * 8]).first == 1


def test_the_users_newest_words_are_quoted_where_they_would_be_covered():
    messages = [a_message("user", "first"), a_message("assistant"), a_message("user", "the newest wish"), *agent(8)[1:]]
    span = span_of(messages, [10, 10, 10, *[10, 900] * 8])

    assert span.quote == "the newest wish"


def test_a_new_summary_takes_the_earlier_one_in_and_reaches_further():
    messages = [*agent(8), a_message("user", "now?")]
    tokens = [10, *[10, 900] * 8, 10]

    assert span_of(messages, tokens, must_cover=4).first == 0
    assert span_of(messages, tokens, must_cover=len(messages) - 2) is None


def test_several_summaries_may_become_one_where_nothing_new_stands_behind_them():
    messages = [*agent(8), a_message("user", "now?")]
    covered = len(messages) - 4
    tokens = [10, *[400, 0] * 7, 10, 4000, 10]

    assert span_of(messages, tokens, must_cover=covered) is None
    assert span_of(messages, tokens, must_cover=covered, merges=True).last == covered
    # What they cover is part of it, though the tail would have room.
    assert span_of(messages, [10, *[400, 0] * 7, 10, 40, 10], must_cover=covered, merges=True).last == covered
    assert span_of(messages, [10, *[1, 0] * 7, 10, 4000, 10], must_cover=covered, merges=True) is None


def test_too_little_is_not_worth_a_summary():
    messages = [*agent(2), a_message("user", "now?")]

    assert span_of(messages, [10, 10, 10, 10, 900, 900]) is None
    assert span_of([a_message("user")], [10]) is None
    assert span_of([], []) is None


def test_words_are_the_visible_text():
    message = a_message("user", parts=(Text(text="one"), Reasoning(text="hidden"), Text(text=" "), Text(text="two")))

    assert words(message) == "one\ntwo"


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3000)), max_size=8),
    st.integers(500, 20_000),
    st.integers(0, 6),
)
def test_a_span_leaves_calls_with_their_results_and_the_newest_messages(shape, usable, recent):
    messages, tokens = [a_message("user", "begin")], [5]
    for number, (width, size) in enumerate(shape):
        ids = [f"{number}-{place}" for place in range(width)]
        messages += [call(*ids), *map(result, ids), a_message("assistant", "ok"), a_message("user", "go on")]
        tokens += [10, *[size] * width, 5, 5]
    span = span_of(messages, tokens, usable, CompactPolicy(keep_recent_messages=recent))

    if span is not None:
        kept = messages[: span.first] + messages[span.last + 1 :]
        asked = {part.call_id for message in kept for part in message.parts if isinstance(part, ToolCall)}
        answered = {part.call_id for message in kept for part in message.parts if isinstance(part, ToolResult)}

        assert asked == answered
        assert len(messages) - 1 - span.last >= recent
        assert messages[-1] in kept


@given(
    roles=st.lists(st.sampled_from(["user", "assistant", "work"]), min_size=1, max_size=12),
    size=st.integers(10, 3000),
    covered=st.integers(-1, 6),
)
def test_where_roles_must_alternate_the_model_speaks_behind_the_span_and_nothing_stands_before_it(roles, size, covered):
    messages = []
    for number, role in enumerate(roles):
        messages += [call(f"c{number}"), result(f"c{number}")] if role == "work" else [a_message(role, f"{number}")]
    span = span_of(messages, [size] * len(messages), alternates=True, must_cover=covered)

    if span is not None:
        assert span.first == 0
        assert messages[span.last + 1].role == "assistant"
        assert span.last > covered
