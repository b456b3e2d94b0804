import pytest

from proxy.conversation.model import ToolResult
from proxy.pruning.placeholder import placeholder
from tests.pruning.builders import count, words


def test_it_is_short_holds_no_content_and_says_how_to_get_the_original():
    result = ToolResult(call_id="c", text="SECRET " + words("x", 1500))

    text = placeholder(result, "read", offered=("read",), count=count, room_tokens=0)

    assert len(text) < 200
    assert "SECRET" not in text
    assert "call read again to see it" in text
    assert "6,007 characters" in text


def test_it_names_only_a_tool_that_the_request_offers():
    text = placeholder(
        ToolResult(call_id="c", text=words("x", 100)), "fetch_original", offered=("read",), count=count, room_tokens=0
    )

    assert "fetch_original" not in text


def test_it_keeps_identifiers_within_its_room_paths_first():
    body = "see src/app/main.py and order 48213 by alice_smith " + "lorem ipsum " * 200
    text = placeholder(ToolResult(call_id="c", text=body), "read", offered=(), count=count, room_tokens=10)

    assert "src/app/main.py" in text
    assert "lorem" not in text


EXCERPT = "Preview (first 2KB):\n" + "lorem ipsum " * 200


@pytest.mark.parametrize(
    "said",
    [
        f"<persisted-output>\nOutput too large (33KB). Full output saved to: /h/.claude/r/b.txt\n\n{EXCERPT}",
        f"The full output has been saved to: /h/.claude/r/b.txt\n{EXCERPT}",
        f"<tool_output_masked>\n{EXCERPT}\nOutput too large. Full output available at: /h/.claude/r/b.txt\n</tool_output_masked>",
    ],
)
def test_where_the_client_keeps_the_whole_output_is_told(said):
    text = placeholder(ToolResult(call_id="c", text=said), "Bash", offered=("Bash",), count=count, room_tokens=20)

    assert text.splitlines()[1] == "Saved whole in: /h/.claude/r/b.txt"
    none = placeholder(ToolResult(call_id="c", text=said), "Bash", offered=("Bash",), count=count, room_tokens=0)
    assert none.count("\n") == 0


def test_a_text_about_saved_outputs_is_no_saved_output():
    body = f"{EXCERPT}\nFull output saved to: /somewhere.txt\n{EXCERPT}"
    text = placeholder(ToolResult(call_id="c", text=body), "Bash", offered=("Bash",), count=count, room_tokens=20)

    assert "Saved whole" not in text
