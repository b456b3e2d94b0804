import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.conversation.fingerprint import (
    KEY_BYTES,
    ReplyPrint,
    boundaries,
    digest,
    earlier_ends,
    index_of,
    prefix_keys,
    reply_print,
    seed_key,
)
from proxy.conversation.model import Message, Reasoning, Text, ToolCall

keys_of = st.text(min_size=1, max_size=8).filter(lambda key: key != "cache_control")
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys_of, inner, max_size=4)),
    max_leaves=12,
)


def said(role, text=""):
    return Message(role=role, parts=(Text(text=text),), digest=digest([role, text]))


def shuffled(value):
    """The same value with the keys of every object back to front."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(value=values)
def test_the_order_of_keys_does_not_count(value):
    assert digest(value) == digest(shuffled(value))
    assert len(digest(value)) == KEY_BYTES


@given(value=st.dictionaries(keys_of, values, max_size=4), key=keys_of)
def test_null_is_absence_and_cache_marks_are_nothing(value, key):
    if key not in value:
        assert digest({**value, key: None}) == digest(value)
    assert digest({**value, "cache_control": {"type": "ephemeral"}}) == digest(value)


SAME = [
    ({"role": "user", "content": "hi"}, {"content": [{"type": "text", "text": "hi"}], "role": "user"}),
    ({"content": "hi"}, {"content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}, "citations": None}]}),
    ({"content": "hi"}, {"content": [{"type": "input_text", "text": "hi"}]}),
    ({"content": "hi"}, {"content": [{"type": "output_text", "text": "hi"}]}),
    ({"role": "assistant", "content": None, "tool_calls": []}, {"role": "assistant", "tool_calls": []}),
    # Also inside a tool result.
    ({"content": [{"type": "tool_result", "content": "x"}]}, {"content": [{"type": "tool_result", "content": [{"type": "text", "text": "x"}]}]}),
]  # fmt: skip
DIFFERENT = [
    ({"content": "hi"}, {"content": "hi "}),
    ({"content": ""}, {}),
    ({"content": []}, {}),
    ({"content": "hi"}, {"content": [{"type": "text", "text": "hi"}, {"type": "text", "text": ""}]}),
    ({"content": "hi"}, {"content": [{"type": "text", "text": "hi", "citations": [1]}]}),
    ({"content": "hi"}, {"content": [{"type": "refusal", "text": "hi"}]}),
    ({"role": "user"}, {"role": "assistant"}),
    ({"id": 1}, {"id": "1"}),
    ({"id": 1}, {"id": True}),
    ({"list": [1, 2]}, {"list": [2, 1]}),
    ({"list": [None, 1]}, {"list": [1, None]}),
    ({"text": "\ud83d"}, {"text": "\ud83e"}),
    ({"text": "\ud83d", "a": {"b": 1}}, {"text": "\ud83d", "a": [["b", 1]]}),
    ({"n": 2**70}, {"n": 2**70 + 1}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_ways_to_say_the_same_have_one_digest(one, other):
    assert digest(one) == digest(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_everything_else_counts(one, other):
    assert digest(one) != digest(other)


histories = st.lists(
    st.builds(said, st.sampled_from(["user", "assistant", "tool"]), st.sampled_from(["a", "b", ""])), max_size=12
)


@given(one=histories, other=histories)
def test_two_requests_share_exactly_the_keys_of_their_common_beginning(one, other):
    seed = seed_key("openai_chat", "me")
    first, second = prefix_keys(seed, one), prefix_keys(seed, other)
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1

    assert first[:common] == second[:common]
    assert prefix_keys(seed, other, first[:common]) == second[common:]
    assert not set(first[common:]) & set(second)
    assert len(set(first)) == len(one)


def test_callers_and_dialects_never_meet():
    history = [said("user", "hello")]
    seeds = [seed_key(*pair) for pair in (("a", "b"), ("a", "c"), ("ab", ""), ("", "ab"), ("a\0", "b"))]

    assert len({prefix_keys(seed, history)[0] for seed in seeds}) == len(seeds)


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ("", []),
        ("u", [0]),
        # A retry of the whole first, then what was sent before each answer.
        ("uau", [2, 0]),
        ("uatatu", [5, 2, 0]),
        # Several assistant messages in a row are one answer.
        ("uaatu", [4, 0]),
        # Nothing was sent before a first message that is an answer.
        ("au", [1]),
        ("ua", [1, 0]),
    ],
)
def test_an_earlier_request_ended_before_an_answer(roles, expected):
    names = {"u": "user", "a": "assistant", "t": "tool"}

    messages = [said(names[role]) for role in roles]
    ends = earlier_ends(messages)

    assert boundaries(ends) == expected
    for known in range(len(messages)):
        assert earlier_ends(messages, ends[:known]) == ends[known:]


def test_of_long_histories_only_the_newest_boundaries_are_asked_for():
    history = [said(role) for _ in range(500) for role in ("user", "assistant")]
    ends = earlier_ends(history)
    found = boundaries(ends)

    assert len(found) == 48
    assert found[:3] == [999, 998, 996]
    assert boundaries(ends, most=3) == [999, 998, 996]


@example(pieces=["a \n", "b"] * 60 + ["c " * 2000, "d", "\ud83d", "\ude00"], names=["read"])
@given(pieces=st.lists(st.text(), max_size=8), names=st.lists(st.text(), max_size=3))
def test_a_reply_is_known_however_it_came_in_pieces_and_whatever_was_trimmed(pieces, names):
    streamed = ReplyPrint()
    for piece in pieces:
        streamed.text(piece)
    for name in names:
        streamed.call(name)
    whole = "".join(pieces)
    calls = tuple(ToolCall(call_id="x", name=name, arguments="{}") for name in names)

    sent_back = Message(role="assistant", parts=(Reasoning(text="hm"), Text(text=f"  {whole}\n"), *calls), digest=b"")
    in_two = [Message(role="assistant", parts=(part,), digest=b"") for part in (Text(text=whole), *calls)]

    assert reply_print([sent_back]) == reply_print(in_two) == streamed.digest()
    assert streamed.visible_chars == len(whole)


def test_another_text_another_call_or_another_order_is_another_reply():
    def of(text, *names):
        known = ReplyPrint()
        known.text(text)
        for name in names:
            known.call(name)
        return known.digest()

    prints = [
        of("a"),
        of("b"),
        of(""),
        of("", "a"),
        of("a", "read"),
        of("a", "read", "read"),
        of("a", "x", "y"),
        of("a", "y", "x"),
    ]

    assert len(set(prints)) == len(prints)


def test_a_key_finds_the_message_that_it_stands_behind():
    keys = prefix_keys(b"seed", [said("user", "a"), said("assistant", "b"), said("user", "a")])

    assert index_of(keys) == {keys[0]: 0, keys[1]: 1, keys[2]: 2}
