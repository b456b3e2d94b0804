"""Old steps in short."""

from proxy.compaction.steps import in_short, with_names
from proxy.conversation.model import Media, Text, ToolResult
from tests.pruning.builders import a_message, call, result, user


def short(*messages, newest=-1, failed=lambda _: False, whole=lambda _: False, said=()):
    return in_short(messages, newest=newest, failed=failed, whole=whole, said=said).splitlines()[1:]


def test_it_says_what_it_is():
    assert in_short([user(), user()], newest=-1, failed=bool, whole=bool).startswith("[2 older messages in short;")


def test_what_people_said_stays_word_for_word():
    assert short(user("never touch main\nplease")) == ["User: never touch main", "please"]


def test_only_the_newest_request_stays_whole_however_long_it_is():
    long = "x" * 5000

    assert short(user(long), newest=0) == [f"User: {long}"]
    assert "3,001 characters left out" in "\n".join(short(user(long)))


def test_answers_and_calls_keep_their_beginning():
    steps = short(a_message("assistant", Text(text="word " * 100)), call("c", "bash", '{"command": "' + "y" * 500))

    assert [len(line) for line in steps] == [len("Assistant: ") + 160, len("bash ") + 100]


def test_outputs_go_but_for_what_went_wrong():
    failed = result("c", "line\nValueError: no such row\nmore")

    assert short(call("c"), result("c", "fine")) == ['read {"path":"a"}']
    assert short(call("c"), failed, failed=lambda _: True)[1:] == ["→ ValueError: no such row"]


def test_results_that_are_decisions_stay():
    asked = [call("c", "ask_user"), result("c", "use tabs")]

    assert short(*asked, whole=lambda tool: tool == "ask_user")[1:] == ["→ use tabs"]
    named = a_message("tool", ToolResult(call_id="", name="ask_user", text="use tabs"))
    assert short(named, whole=lambda tool: tool == "ask_user") == ["→ use tabs"]


def test_attachments_are_mentioned_and_queued_words_stand_where_they_were_said():
    picture = a_message("user", Media(kind="image"))

    assert short(picture, call("c"), said=[(0, "be quick")])[:2] == ["User: (image)", "User: be quick"]


def test_names_stand_behind_the_steps():
    assert with_names("steps", ["a_b", "c.py"]) == "steps\nAlso mentioned: a_b c.py"
    assert with_names("steps", []) == "steps"
