from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import Message, Reasoning, Text, ToolCall, ToolResult
from proxy.conversation.pairing import cut_positions, paired, pairs


def call(call_id, name="read"):
    return ToolCall(call_id=call_id, name=name, arguments="{}")


def result(call_id, name="", text="x"):
    return ToolResult(call_id=call_id, name=name, text=text)


def said(*parts, role="assistant"):
    return Message(role=role, parts=parts, digest=b"")


def matched(*messages):
    """For each result: where its call stands, and the tool's name."""
    return [(pair.call_message, pair.tool) for pair in pairs(messages)]


def test_a_result_belongs_to_the_call_with_its_id():
    history = said(call("a", "read"), call("b", "write")), said(result("b")), said(result("a"))

    assert matched(*history) == [(0, "write"), (0, "read")]


def test_an_id_that_is_used_again_means_the_nearest_earlier_call():
    history = said(call("a", "read")), said(result("a")), said(call("a", "write")), said(result("a"))

    assert matched(*history) == [(0, "read"), (2, "write")]


def test_a_result_without_its_call_is_an_orphan():
    (pair,) = pairs([said(result("lost")), said(call("lost"))])

    assert (pair.call, pair.call_message, pair.tool) == (None, -1, "")


def test_an_orphans_tool_is_the_one_that_it_names_itself():
    assert matched(said(result("lost", "grep"))) == [(-1, "grep")]


def test_results_without_ids_belong_to_the_calls_of_their_name_in_order():
    """Gemini's calls and the old functions have no ids."""
    history = (
        said(call("", "read"), call("", "write"), call("", "read")),
        said(result("", "read"), result("", "write"), result("", "read")),
    )
    found = pairs(history)

    assert [pair.call for pair in found] == list(history[0].parts)
    assert found[0].call is not found[2].call


def test_a_name_that_is_called_again_means_the_call_that_waits():
    history = (
        said(call("", "read")),
        said(result("", "read")),
        said(call("", "read")),
        said(result("", "read")),
        said(result("", "read")),
    )

    assert matched(*history) == [(0, "read"), (2, "read"), (2, "read")]


def test_without_ids_and_names_calls_are_answered_in_order():
    history = said(call("", "read"), call("", "write")), said(result("")), said(result("")), said(result(""))

    assert matched(*history) == [(0, "read"), (0, "write"), (-1, "")]


def test_a_name_does_not_help_a_result_whose_id_is_another_one():
    assert matched(said(call("a", "read")), said(result("lost", "read"))) == [(-1, "read")]
    # But a call without an id can be meant by any.
    assert matched(said(call("", "read")), said(result("lost", "read"))) == [(0, "read")]
    assert matched(said(call("", "read")), said(result("lost"))) == [(-1, "")]


def test_parts_are_numbered_within_their_message():
    history = said(call("a"), call("b")), said(Text(text="note"), result("a"), result("b"), role="user")

    assert [(pair.message, pair.part) for pair in pairs(history)] == [(1, 1), (1, 2)]


def test_no_cut_parts_a_call_from_any_of_its_results():
    history = (
        said(Text(text="go"), role="user"),
        said(call("a"), call("b")),
        said(result("a")),
        said(result("b")),
        said(),
    )

    assert cut_positions(history) == [0, 1, 4, 5]


def test_no_cut_parts_reasoning_from_what_it_led_to():
    """An item of its own in Responses, which refuses a call without the reasoning before it, and the other way round."""
    thought = said(Reasoning(text="hm"))
    history = (
        said(Text(text="go"), role="user"),
        thought,
        thought,
        said(call("a")),
        said(result("a"), role="tool"),
        thought,
    )

    assert cut_positions(history) == [0, 1, 5, 6]
    assert cut_positions([said(Reasoning(text="hm"), Text(text="so")), said(call("a"))]) == [0, 1, 2]


def test_an_answer_stays_whole_behind_its_reasoning():
    thought, spoken = said(Reasoning(text="hm")), said(Text(text="so"))
    history = (
        said(Text(text="go"), role="user"),
        thought,
        spoken,
        said(call("a")),
        said(result("a"), role="tool"),
        spoken,
    )

    assert cut_positions(history) == [0, 1, 5, 6]
    assert cut_positions([spoken, spoken]) == [0, 1, 2]


def test_no_cut_parts_code_from_the_calls_that_it_makes():
    by_code = [ToolCall(call_id=name, name="read", arguments="{}", caller="run") for name in "ab"]
    running = [
        said(Text(text="go"), role="user"),
        said(call("run")),
        said(by_code[0]),
        said(result("a"), role="tool"),
        said(by_code[1]),
        said(result("b"), role="tool"),
    ]

    assert cut_positions(running) == [0, 1, 6]
    assert cut_positions([*running, said(result("run")), said(Text(text="done"))]) == [0, 1, 7, 8]
    assert cut_positions(running[2:]) == [0, 2, 4]


def test_no_cut_parts_a_system_message_from_the_answer_to_it():
    """As Claude Code sends them; at the end it is the last word."""
    history = (
        said(Text(text="go"), role="user"),
        said(Text(text="# Environment"), role="system"),
        said(call("a")),
        said(result("a"), role="user"),
        said(Text(text="be brief"), role="system"),
    )

    assert cut_positions(history) == [0, 1, 4, 5]


def test_orphans_may_be_cut_off():
    assert cut_positions([said(result("x")), said(result("y"))]) == [0, 1, 2]


histories = st.lists(
    st.lists(
        st.one_of(
            st.builds(call, st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["read", "write"])),
            st.builds(result, st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["", "read", "write"])),
            st.just(Text(text="x")),
            st.just(Reasoning(text="x")),
        ),
        max_size=4,
    ).map(lambda parts: said(*parts)),
    max_size=10,
)


@given(messages=histories)
def test_every_result_is_found_once_and_never_before_its_call(messages):
    found = pairs(messages)
    results = [
        (at, place)
        for at, message in enumerate(messages)
        for place, part in enumerate(message.parts)
        if isinstance(part, ToolResult)
    ]

    assert [(pair.message, pair.part) for pair in found] == results
    for pair in found:
        assert pair.call_message <= pair.message
        assert (pair.call is None) == (pair.call_message == -1)
        if pair.call is not None:
            assert pair.call in messages[pair.call_message].parts
            assert pair.call.call_id in ("", pair.result.call_id) or not pair.result.call_id


@given(messages=histories, at=st.integers(0, 10))
def test_a_position_is_open_exactly_when_a_cut_there_parts_nothing(messages, at):
    at = min(at, len(messages))

    parts_a_pair = any(0 <= pair.call_message < at <= pair.message for pair in pairs(messages))
    led = any(message.parts and all(isinstance(part, Reasoning) for part in message.parts) for message in messages[:at])
    # All of them are the assistant's: one answer.
    assert (at in cut_positions(messages)) == (not parts_a_pair and not (led and at < len(messages)))


@given(messages=histories, known=st.integers(0, 10))
def test_pairs_that_are_known_need_not_be_found_again(messages, known):
    before = paired(messages[:known])

    assert [*before, *paired(messages, before)] == paired(messages)
    assert [pair for some in paired(messages) for pair in some] == pairs(messages)


made_by_code = st.builds(
    ToolCall,
    call_id=st.sampled_from("ab"),
    name=st.just("read"),
    arguments=st.just("{}"),
    caller=st.sampled_from(["", "a", "b"]),
)
spoken = st.builds(
    said,
    st.one_of(
        st.just(Text(text="x")),
        st.just(Reasoning(text="x")),
        made_by_code,
        st.builds(result, st.sampled_from(["", "a", "b"]), st.just("read")),
    ),
    role=st.sampled_from(["assistant", "assistant", "tool", "user", "system"]),
)


@given(messages=st.lists(spoken, max_size=10), since=st.integers(0, 10))
def test_where_the_end_of_a_history_can_be_cut_is_told_by_its_end(messages, since):
    since = min(since, len(messages))

    assert cut_positions(messages, since) == [at for at in cut_positions(messages) if at >= since]
