"""A record that no model writes."""

from proxy.compaction.record import deterministic
from proxy.conversation.model import Message, Text, ToolCall, ToolResult


def user(text):
    return Message(role="user", parts=(Text(text=text),), digest=b"")


def noted(text):
    return Message(role="assistant", parts=(Text(text=text),), digest=b"")


def call(name, arguments, outcome, number=0):
    identity = f"{name}{number}"
    return [
        Message(role="assistant", parts=(ToolCall(call_id=identity, name=name, arguments=arguments),), digest=b""),
        Message(role="tool", parts=(ToolResult(call_id=identity, name=name, text=outcome),), digest=b""),
    ]


def names(text, tokens, known):
    return [word for word in dict.fromkeys(text.split()) if "_" in word and word not in known][: max(0, tokens // 3)]


def record(messages, earlier="", chars=4000):
    return deterministic(messages, earlier, names, chars)


def test_the_users_words_stand_in_it_word_for_word():
    text = record([user("Repair build.py. Never touch legacy/."), noted("I will.")])

    assert "- Repair build.py. Never touch legacy/." in text


def test_each_call_stands_in_it_with_what_came_of_it():
    text = record(
        [user("go"), *call("bash", '{"command":"make"}', "cc main.c\nmain.c:3: error: no such file\nmake: done")]
    )

    assert 'bash {"command":"make"} → main.c:3: error: no such file' in text
    assert "## Errors seen\n- main.c:3: error: no such file" in text


def test_a_call_without_an_error_is_told_by_its_last_line():
    assert "→ 12 passed" in record([user("go"), *call("test", "{}", "collecting\n\n12 passed\n")])


def test_equal_calls_are_one_line():
    text = record([user("go"), *call("look", "{}", "old", 1), *call("look", "{}", "new", 2)])

    assert "- look {} → new (2 times)" in text
    assert "old" not in text.partition("## Names")[0]


def test_last_words_and_earlier_first_lines_of_the_assistant_are_kept():
    text = record([user("go"), noted("I chose A.\nSince B is slow."), noted("Next: C.\nThen D.")])

    assert "## The assistant noted\n- I chose A." in text
    assert "Since B" not in text
    assert "## The assistant's last words\nNext: C.\nThen D." in text


def test_an_earlier_record_goes_in_front():
    assert record([user("go")], earlier="We began.").startswith("## Earlier record\nWe began.")


def test_names_of_the_newest_quarter_have_half_of_the_room():
    old = [user(" ".join(f"old_{number}" for number in range(400))) for _ in range(3)]
    text = record([*old, user("new_one")], chars=900)

    assert "new_one" in text
    assert "old_0" in text


def test_what_is_left_out_is_counted():
    messages = [user("go")] + [
        part for number in range(200) for part in call("read", f'{{"n":{number}}}', "ok", number)
    ]
    text = record(messages, chars=2000)

    assert '- read {"n":0} → ok' in text
    assert '- read {"n":199} → ok' in text
    steps = text.count("- read ")
    assert f"\n- … {200 - steps} more …\n" in text
    assert text.count("more …") == 1
    assert len(text) < 2200


def test_a_span_without_anything_said_has_an_empty_record():
    assert record([]) == ""
