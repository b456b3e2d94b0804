import pytest

from proxy.dialects.gemini.spelling import either, snake, spelled


@pytest.mark.parametrize(
    ("camel", "snaked"),
    [("functionCall", "function_call"), ("maxOutputTokens", "max_output_tokens"), ("text", "text")],
)
def test_a_field_has_two_spellings(camel, snaked):
    assert snake(camel) == snaked
    assert either({snaked: 1}, camel) == either({camel: 1}, camel) == 1
    assert spelled({snaked: None}, camel) == snaked


def test_a_field_that_is_not_there_has_none():
    assert spelled({}, "functionCall") == ""
    assert either({"": 1, "other": 1}, "functionCall") is None
