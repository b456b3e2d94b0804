import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import (
    NO_TOOLS,
    Conversation,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Tools,
)
from proxy.tokens.estimate import OVERHEADS, Memo, Scale, rule_of_thumb, texts_of
from tests.builders import weigh_request


def a_message(*parts, role="user", digest=None):
    return Message(role=role, parts=parts, digest=digest if digest is not None else repr(parts).encode())


def a_scale(count=len, *, dialect="openai_chat", model="m", encoding="e", memo=None):
    return Scale(encoding=encoding, count=count, dialect=dialect, model=model, memo=Memo() if memo is None else memo)


def a_conversation(**fields):
    return Conversation(
        **{
            "dialect": "openai_chat",
            "model": "m",
            "system": (),
            "tools": NO_TOOLS,
            "messages": (),
            "stream": False,
            "max_output": None,
            **fields,
        }
    )


class Counting:
    def __init__(self):
        self.texts = []

    def __call__(self, text):
        self.texts.append(text)
        return len(text)


parts = st.one_of(
    st.builds(Text, text=st.text()),
    st.builds(Reasoning, text=st.text(), signed=st.booleans()),
    st.builds(ToolCall, call_id=st.text(), name=st.text(), arguments=st.text()),
    st.builds(ToolResult, call_id=st.text(), text=st.text(), media=st.tuples(st.builds(Media, kind=st.just("image")))),
    st.builds(
        Media,
        kind=st.sampled_from(["image", "audio", "video", "file"]),
        width=st.one_of(st.none(), st.integers(-1, 10**6)),
        height=st.one_of(st.none(), st.integers(-1, 10**6)),
        detail=st.sampled_from(["", "low", "high", "auto"]),
        size_bytes=st.integers(0, 10**9),
    ),
    st.builds(Opaque, kind=st.text(), size_chars=st.integers(0, 10**9)),
)


# Chat overheads: those by which the recorded trajectories are counted


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ((Text(text="x" * 10),), 14),
        ((Text(text="x" * 10), Text(text="y" * 5)), 19),
        ((ToolCall(call_id="call_1", name="read", arguments='{"a":1}'),), 4 + 4 + 7 + 3),
        ((ToolResult(call_id="call_1", text="z" * 20),), 27),
        ((Reasoning(text="r" * 8), Text(text="x")), 13),
        ((), 4),
    ],
)
def test_a_chat_message_weighs_its_texts_and_fixed_overheads(parts, total):
    assert a_scale().weigh(a_message(*parts)).total == total


def test_r6_tool_call_arguments_and_names_count():
    call = ToolCall(call_id="c", name="n" * 10, arguments="a" * 100)

    assert a_scale().weigh(a_message(call)).parts == (113,)


def test_a_request_weighs_system_tools_messages_and_priming():
    conversation = a_conversation(
        system=(a_message(Text(text="s" * 100), role="system"),),
        tools=Tools(digest=b"t", text="j" * 50, names=("a", "b")),
        messages=(a_message(Text(text="m" * 10)),),
    )

    assert weigh_request(a_scale(), conversation) == 104 + 50 + 14 + 3


def test_no_tools_weigh_nothing():
    assert a_scale(dialect="anthropic_messages").weigh_tools(NO_TOOLS) == 0


def test_an_unknown_dialect_weighs_as_chat_does():
    message = a_message(Text(text="hello"))

    assert a_scale(dialect="new").weigh(message) == a_scale(dialect="openai_chat").weigh(message)


def test_reasoning_is_shown_apart_and_part_of_the_total():
    weight = a_scale().weigh(a_message(Reasoning(text="r" * 30), Text(text="x" * 4), role="assistant"))

    assert (weight.reasoning, weight.total) == (30, 38)


@pytest.mark.parametrize(
    ("text", "signed", "tokens"),
    [
        ("A" * 600, True, 100),
        ("A" * 600, False, 600),
        ("a thought in words, " * 30, True, 600),
        ("A" * 120, True, 120),
    ],
)
def test_sealed_reasoning_weighs_by_its_length_and_readable_reasoning_by_its_words(text, signed, tokens):
    assert a_scale().weigh(a_message(Reasoning(text=text, signed=signed))).reasoning == tokens


def test_a_replaced_text_weighs_without_an_envelope():
    assert a_scale().weigh_text("x" * 9) == 9


# Bounds


def test_c61_audio_and_unknown_parts_stay_below_5000():
    weight = a_scale(rule_of_thumb).weigh(
        a_message(Text(text="hear"), Media(kind="audio", size_bytes=60_000), Opaque(kind="future_part", size_chars=40))
    )

    assert 3 <= weight.total <= 5000


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (40, 10), (1_600, 400), (10_000_000, 400)])
def test_an_unread_part_weighs_a_quarter_of_its_characters_and_at_most_400(size, tokens):
    assert a_scale().weigh(a_message(Opaque(kind="k", size_chars=size))).parts == (tokens,)


def test_c12_a_picture_of_a_mebibyte_weighs_its_area_not_its_base64():
    picture = Media(kind="image", width=1000, height=1000, size_bytes=1_048_576)

    assert 1000 <= a_scale(model="claude-sonnet-4-5").weigh(a_message(picture)).total <= 3000


def test_a_result_weighs_its_pictures_too():
    result = ToolResult(call_id="c", text="", media=(Media(kind="image"), Media(kind="image")))

    assert a_scale().weigh(a_message(result)).parts == (2003,)


@given(st.lists(parts, max_size=6).map(tuple), st.sampled_from([*OVERHEADS, "other"]))
def test_weights_never_raise_and_always_add_up(parts, dialect):
    weight = a_scale(rule_of_thumb, dialect=dialect).weigh(a_message(*parts, digest=b"d"))

    assert weight.total == sum(weight.parts) + weight.overhead
    assert 0 <= weight.reasoning <= weight.total
    assert len(weight.parts) == len(parts)


# Once a process


def test_a_message_is_counted_once_for_all_scales_of_a_kind():
    counting, memo = Counting(), Memo()
    message = a_message(Text(text="hello"))

    first = a_scale(counting, memo=memo).weigh(message)
    again = a_scale(counting, memo=memo).weigh(message)

    assert first == again
    assert counting.texts == ["hello"]


@pytest.mark.parametrize("other", [{"encoding": "f"}, {"dialect": "gemini"}, {"model": "n"}])
def test_another_encoding_dialect_or_model_weighs_for_itself(other):
    counting, memo = Counting(), Memo()
    message = a_message(Text(text="hello"))

    a_scale(counting, memo=memo).weigh(message)
    a_scale(counting, memo=memo, **other).weigh(message)

    assert len(counting.texts) == 2


def test_tools_are_counted_once():
    counting = Counting()
    scale = a_scale(counting)
    tools = Tools(digest=b"t", text="json", names=("a",))

    assert not scale.tools_known(tools)
    assert scale.weigh_tools(tools) == scale.weigh_tools(tools) == 4
    assert scale.tools_known(tools)
    assert counting.texts == ["json"]


def test_the_memo_is_bounded_and_forgets_the_least_recently_used():
    memo = Memo(room_bytes=1_000)
    scale = a_scale(memo=memo)
    first, second, third = (a_message(Text(text=text)) for text in "abc")

    scale.weigh(first)
    scale.weigh(second)
    scale.weigh(first)
    scale.weigh(third)

    assert len(memo) == 2
    assert (scale.is_known(first), scale.is_known(second), scale.is_known(third)) == (True, False, True)


@given(st.lists(parts, max_size=6).map(tuple))
def test_the_texts_of_a_message_are_those_that_weighing_counts(parts):
    counting = Counting()
    message = a_message(*parts, digest=b"d")

    a_scale(counting).weigh(message)

    assert counting.texts == list(texts_of(message))


# The rule of thumb


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # C8: half up. C11: the placeholder of the seeds. C13: 1,000 CJK characters.
        ("", 0),
        ("x", 0),
        ("xx", 1),
        ("x" * 6, 2),
        ("x" * 10, 3),
        ("x" * 33, 8),
        ("中" * 1000, 1500),
        # C10: an emoji is one character here, not two UTF-16 units.
        ("😀", 2),
        ("\ud800", 2),
    ],
)
def test_c8_c10_c11_c13_the_rule_of_thumb_rounds_half_up(text, tokens):
    assert rule_of_thumb(text) == tokens


def test_what_anthropic_adds_to_calls_that_run_in_parallel_is_as_recorded():
    """claude-sonnet-4, two results of one digit each: 61 tokens more than the input and the output before them."""
    scale = a_scale(dialect="anthropic_messages")
    results = tuple(ToolResult(call_id=str(number), text="5") for number in range(2))
    message = Message(role="user", parts=results, digest=b"parallel")

    assert scale.weigh(message).total + scale.overheads.message == pytest.approx(61, abs=10)


def test_what_anthropic_adds_to_a_single_result_is_as_recorded():
    """claude-3-7, sonnet-4 and -4-5, opus-4-5: 14 or 15 tokens more for a result of two or three."""
    scale = a_scale(dialect="anthropic_messages")
    message = Message(role="user", parts=(ToolResult(call_id="a", text="40 C"),), digest=b"single")

    assert scale.weigh(message).total + scale.overheads.message == pytest.approx(14, abs=2)


def test_what_goes_between_code_and_the_client_weighs_nothing():
    by_code = ToolCall(call_id="a", name="read", arguments="{}", caller="run")
    to_code = ToolResult(call_id="a", text="", fixed=True, to_code=True)
    own = ToolResult(call_id="b", text="seen")
    scale = a_scale(dialect="anthropic_messages")

    assert scale.weigh(a_message(by_code, role="assistant")).total == 0
    assert scale.weigh(a_message(to_code, to_code, digest=b"1")).total == 0
    assert scale.weigh(a_message(to_code, own, digest=b"2")).parts == (0, 12)
    assert scale.weigh(a_message(to_code, own, digest=b"3")).total == scale.weigh(a_message(own, digest=b"4")).total
    assert [*texts_of(a_message(by_code, to_code))] == [""]
