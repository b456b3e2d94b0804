import json

import pytest

from proxy.conversation.model import Media, Opaque, Reasoning, Text, ToolCall, ToolResult
from proxy.dialects.openai_responses.items import call_name, parse_item, parse_text

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAAEElEQVR4nGP8z8DwnwEJMAIAEPQBA8qZ0XkAAAAASUVORK5CYII="


def item(**fields):
    return parse_item(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("role", "neutral"),
    [("user", "user"), ("assistant", "assistant"), ("system", "system"), ("developer", "system"), ("critic", "user")],
)
def test_a_message_item_has_its_role(role, neutral):
    assert item(role=role, content="hi").role == neutral


@pytest.mark.parametrize(
    ("part", "read"),
    [
        ({"type": "input_text", "text": "a"}, Text(text="a")),
        ({"type": "output_text", "text": "a", "annotations": []}, Text(text="a")),
        ({"type": "refusal", "refusal": "no"}, Text(text="no")),
        (
            {"type": "input_image", "image_url": PIXEL, "detail": "low"},
            Media(kind="image", width=2, height=3, detail="low", size_bytes=75),
        ),
        ({"type": "input_image", "file_id": "file-1"}, Media(kind="image", reference="file-1")),
        (
            {"type": "input_file", "file_url": "https://a.example/f.pdf"},
            Media(kind="file", reference="https://a.example/f.pdf"),
        ),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, Media(kind="audio", size_bytes=3)),
        ({"type": "new"}, Opaque(kind="new", size_chars=14)),
        ({"type": "input_text", "text": None}, Opaque(kind="input_text", size_chars=33)),
    ],
)
def test_a_content_part_is_read(part, read):
    assert item(type="message", role="user", content=[part]).parts == (read,)


@pytest.mark.parametrize(
    ("fields", "name", "arguments"),
    [
        ({"type": "function_call", "name": "f", "arguments": '{"a":1}'}, "f", '{"a":1}'),
        ({"type": "custom_tool_call", "name": "grep", "input": "-r x"}, "grep", "-r x"),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, "local_shell", '{"command":["ls"]}'),
        ({"type": "shell_call", "action": {"commands": ["ls"]}}, "shell", '{"commands":["ls"]}'),
        ({"type": "computer_call", "action": {"type": "click"}}, "computer", '{"type":"click"}'),
        ({"type": "apply_patch_call", "operation": {"type": "delete_file"}}, "apply_patch", '{"type":"delete_file"}'),
        ({"type": "function_call"}, "", ""),
    ],
)
def test_a_call_item_is_a_call_of_the_assistant(fields, name, arguments):
    read = item(call_id="c1", id="fc_1", **fields)

    assert read.role == "assistant"
    assert read.parts == (ToolCall(call_id="c1", name=name, arguments=arguments),)
    assert call_name(fields) == name


@pytest.mark.parametrize(
    "kind",
    ["function_call_output", "custom_tool_call_output", "local_shell_call_output", "apply_patch_call_output"],
)
def test_an_output_item_is_a_result(kind):
    read = item(type=kind, call_id="c1", output="text")

    assert read.role == "tool"
    assert read.parts == (ToolResult(call_id="c1", text="text"),)


def test_a_local_shell_output_may_name_its_call_by_id_alone():
    assert item(type="local_shell_call_output", id="c1", output="{}").parts[0].call_id == "c1"


def test_a_list_of_parts_is_one_result_with_text_and_media():
    output = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    image = {"type": "input_image", "image_url": PIXEL}

    assert item(type="function_call_output", call_id="c", output=output).parts[0].text == "a\nb"
    assert item(type="function_call_output", call_id="c", output=[*output, image]).parts[0].media[0].width == 2


def test_a_shell_output_is_read_with_both_streams():
    entries = [
        {"stdout": "o", "stderr": "e", "outcome": {"type": "exit", "exit_code": 1}},
        {"stdout": "", "stderr": "f"},
    ]

    assert item(type="shell_call_output", call_id="c", output=entries).parts == (
        ToolResult(call_id="c", text="o\ne\nf"),
    )


@pytest.mark.parametrize("output", [None, 5, {"type": "computer_screenshot", "image_url": PIXEL}, [{"type": "new"}]])
def test_an_output_of_an_unknown_shape_is_fixed(output):
    assert item(type="computer_call_output", call_id="c", output=output).parts[0].fixed


def test_a_screenshot_is_an_image_with_its_size():
    read = item(type="computer_call_output", call_id="c", output={"type": "computer_screenshot", "image_url": PIXEL})

    assert (read.parts[0].media[0].width, read.parts[0].media[0].height) == (2, 3)


def test_a_failed_patch_is_an_error():
    assert item(type="apply_patch_call_output", call_id="c", status="failed", output="no such file").parts[0].is_error


def test_an_mcp_call_holds_its_result_which_is_never_edited():
    read = item(type="mcp_call", id="m1", name="search", arguments="{}", output="found", server_label="s")

    assert read.role == "assistant"
    assert read.parts == (
        ToolCall(call_id="m1", name="search", arguments="{}"),
        ToolResult(call_id="m1", text="found", fixed=True),
    )
    assert item(type="mcp_call", id="m1", name="search", arguments="{}", error={"code": 1}).parts[1].is_error


def test_encrypted_reasoning_is_signed_and_its_ciphertext_is_no_text():
    summary = [{"type": "summary_text", "text": "think"}]

    assert item(type="reasoning", id="rs_1", summary=summary).parts == (Reasoning(text="think"),)
    assert item(type="reasoning", summary=[], encrypted_content="gAAA").parts == (Reasoning(text="", signed=True),)
    assert item(type="reasoning", summary=[], content=[{"type": "reasoning_text", "text": "raw"}]).parts == (
        Reasoning(text="raw"),
    )


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary"])
def test_a_compaction_item_is_a_summary(kind):
    read = item(type=kind, encrypted_content="gAAA")

    assert read.summary_marked
    assert read.role == "assistant"
    assert isinstance(read.parts[0], Opaque)


def test_a_summary_that_the_client_wrote_is_marked():
    text = "Another language model started to solve this problem and produced a summary of its thinking process. …"

    assert item(role="user", content=text).summary_marked
    assert not item(role="user", content="Explain: " + text).summary_marked


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}, "assistant"),
        ({"type": "item_reference", "id": "msg_1"}, "assistant"),
        ({"type": "mcp_approval_response", "approve": True}, "user"),
        ({"type": "future_item", "payload": [1]}, "user"),
        ({"type": "message"}, "user"),
    ],
)
def test_an_unknown_item_is_carried_unread(fields, role):
    read = item(**fields)

    assert read.role == role
    assert [type(part) for part in read.parts] == [Opaque]


def test_an_item_that_is_no_object_is_carried_unread():
    assert parse_item(b'"text"').parts == (Opaque(kind="unknown", size_chars=6),)


def test_the_easy_form_the_full_form_and_a_plain_string_mean_the_same():
    easy = item(role="user", content="hi")
    full = item(type="message", role="user", content=[{"type": "input_text", "text": "hi"}])

    assert easy.digest == full.digest == parse_text("user", b'"hi"').digest
    assert item(role="user", content="ho").digest != easy.digest
    assert item(role="assistant", content="hi").digest != easy.digest


def test_a_program_is_a_call_of_the_assistant_that_its_output_answers():
    program = item(type="program", id="p1", call_id="prog", code="await tools.f()", fingerprint="opaque")
    output = item(type="program_output", id="o1", call_id="prog", result="3", status="completed")

    assert (program.role, output.role) == ("assistant", "assistant")
    assert program.parts == (ToolCall(call_id="prog", name="program", arguments="await tools.f()"),)
    assert output.parts == (ToolResult(call_id="prog", text="3", fixed=True),)
    assert call_name({"type": "program", "call_id": "prog", "code": ""}) == "program"


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "shell_call", "apply_patch_call"])
def test_what_a_programs_calls_give_is_not_in_what_the_model_sees(kind):
    """OpenAI, "Programmatic Tool Calling": what tools give a program stays out of the model's context."""
    by = {"call_id": "c1", "caller": {"type": "program", "caller_id": "prog"}}
    (call,) = item(type=kind, name="f", **by).parts
    (output,) = item(type=f"{kind}_output", output="x" * 1000, status="failed", **by).parts

    assert (call.call_id, call.caller) == ("c1", "prog")
    assert output == ToolResult(call_id="c1", text="", is_error=True, fixed=True, to_code=True)


@pytest.mark.parametrize("caller", [None, {"type": "direct"}])
def test_what_the_models_own_calls_give_is(caller):
    assert item(type="function_call", call_id="c1", caller=caller).parts[0].caller == ""
    assert item(type="function_call_output", call_id="c1", output="x", caller=caller).parts == (
        ToolResult(call_id="c1", text="x"),
    )
