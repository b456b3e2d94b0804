from tests.dialects.session_files.files import of, roles


def test_other_tools_lines_that_look_alike_are_no_session():
    assert of({"type": "user", "message": {"role": "user", "parts": [{"text": "hello"}]}}) == []
    assert of({"type": "assistant", "message": "text"}, {"type": "response_item", "payload": None}) == []


def test_a_line_of_an_odd_type_does_not_keep_the_others_from_being_read():
    (found,) = of(
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "hi"}},
        {"type": ["response_item"], "payload": {}},
        {"type": {}},
    )

    assert roles(found) == ["user"]
