"""What the provider says."""

import pytest

from proxy.demo.provider.answers import Recording, echo, recorded
from proxy.demo.provider.asked import Answer, Asked

SESSION = [
    {"role": "user", "content": "begin"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "done", "reasoning_content": "because"},
]


def asked(text="begin", *, assistants=0, by_user=True, tools=()):
    return Asked(
        body={},
        model="m",
        units=(),
        stream=False,
        assistants=assistants,
        last_text=text,
        last_is_user=by_user,
        tools=tools,
    )


def test_a_recording_gives_the_answer_of_the_requests_turn():
    answers = Recording(SESSION)

    assert answers(asked(), {}).calls[0].arguments == '{"a":1}'
    assert answers(asked("found", assistants=1, by_user=False), {}).text == "done"
    assert answers(asked("found", assistants=1, by_user=False), {}).reasoning == "because"


def test_what_was_said_in_parts_is_known_as_well():
    said = [{"type": "text", "text": "begin"}, {"type": "image_url", "image_url": {"url": "https://h/p.png"}}]
    answers = Recording([{"role": "user", "content": said}, {"role": "assistant", "content": said[:1]}])

    assert answers(asked(), {}).text == "begin"
    assert answers(asked("another"), {}).text == "You said: another"


def test_the_header_names_the_turn_of_a_compacted_history():
    assert Recording(SESSION)(asked("found", by_user=False), {"x-demo-turn": "1"}).text == "done"


@pytest.mark.parametrize("strange", [asked("summarise"), asked("found", assistants=2, by_user=False)])
def test_what_a_recording_does_not_know_goes_to_the_other_answers(strange):
    answers = Recording(SESSION, lambda asked, headers: Answer(text=f"other: {asked.last_text}"))

    assert answers(strange, {}).text == f"other: {strange.last_text}"


def test_the_header_tells_several_recordings_apart():
    answers = recorded({"a": SESSION})

    assert answers(asked(), {"x-demo-session": "a"}).calls
    assert answers(asked(), {"x-demo-session": "b"}).text == "You said: begin"


def test_the_echo_calls_the_tools_that_a_person_asks_for():
    answer = echo(asked("please call look and seek", tools=("look", "seek", "other")), {})

    assert [call.name for call in answer.calls] == ["look", "seek"]
    assert answer.text == ""


def test_the_echo_repeats_a_tools_words():
    assert echo(asked("all  good", by_user=False), {}).text == "The tool said: all good"
