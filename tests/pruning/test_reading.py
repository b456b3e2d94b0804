import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.model import ToolCall
from proxy.pruning.reading import offers_editing, reads_file, shows_failure


@pytest.mark.parametrize(
    ("name", "arguments", "reads"),
    [
        ("read", '{"path":"a"}', True),
        ("Read", "{}", True),
        ("read_file", "{}", True),
        ("view", "{}", True),
        ("str_replace_editor", '{"command":"view"}', True),
        ("bash", '{"command":"sed -n 1,80p a.py"}', True),
        ("exec_command", '{"cmd":"cd x && cat a.py"}', True),
        ("bash", '{"command":"pytest -q"}', False),
        ("web_search", '{"query":"category theory"}', False),
    ],
)
def test_a_call_that_prints_a_file_is_told_by_its_name_or_its_command(name, arguments, reads):
    assert reads_file(ToolCall(call_id="c", name=name, arguments=arguments)) is reads


def test_a_result_without_a_call_is_no_reading():
    assert not reads_file(None)


@pytest.mark.parametrize(
    ("tools", "offers"), [(("bash", "Edit"), True), (("apply_patch",), True), (("search",), False), ((), False)]
)
def test_editing_tools_are_told_by_their_names(tools, offers):
    assert offers_editing(tools) is offers


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("Traceback (most recent call last):\n  File", True),
        ("E   ValueError: no", True),
        ("FAILED tests/test_a.py::test_b", True),
        ("error[E0308]: mismatched types", True),
        ("Process exited with code 2", True),
        ("exit code: 0", False),
        ("2 passed in 0.1s", False),
        ("the terror of errors", False),
    ],
)
def test_a_report_of_failure_is_told_by_its_words(text, fails):
    assert shows_failure(text) is fails


_PLAIN = re.compile(
    r"Traceback \(most|\b[A-Z]\w*(?:Error|Exception)\b|\bFAILED\b|\bfatal:|exit(?:ed with)? code:? [1-9]|npm ERR!"
    r"|panicked at|\berror(?:\[\w+\])?:"
)
_PIECES = [
    "Error",
    "Exception",
    "error",
    "FAILED",
    "fatal:",
    "exit",
    "ed with",
    " code",
    "[E01]",
    "Traceback (most",
    "npm ERR!",
]


@given(st.lists(st.sampled_from([*_PIECES, "panicked at", *"A_é:1 \n-"]), max_size=8).map("".join))
def test_failures_are_found_as_one_expression_for_all_would_find_them(text):
    assert shows_failure(text) == bool(_PLAIN.search(text))
