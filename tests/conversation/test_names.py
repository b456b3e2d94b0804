import pytest

from proxy.conversation.names import matches, plain_name, row_of


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("GPT-5", "gpt-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4.5"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929-v1:0"),
        ("anthropic.claude-3-haiku", "claude-3-haiku"),
        ("", ""),
    ],
)
def test_a_plain_name_has_no_prefix(model, plain):
    assert plain_name(model) == plain


@pytest.mark.parametrize(
    ("clauses", "name", "expected"),
    [
        ("=gpt-5", "gpt-5", True),
        ("=gpt-5", "gpt-5-mini", False),
        ("^gpt-5", "gpt-5-mini", True),
        ("$-mini", "gpt-5-mini", True),
        ("*claude", "us.claude-x", True),
        ("~^o[13]", "o3-pro", True),
        ("~^o[13]", "o4", False),
        ("=a =b", "b", True),
        ("", "anything", False),
    ],
)
def test_a_name_matches_one_of_the_clauses(clauses, name, expected):
    assert matches(clauses, name) is expected


ROWS = [("x-ai", "^grok", 1), ("google", "^gemini", 2), ("openrouter", "^gemini ^x-ai/grok-4", 3)]


@pytest.mark.parametrize(
    ("model", "upstream", "found"),
    [
        # At home first, under our name for the provider, too.
        ("grok-4", "xai", 1),
        ("google/gemini-3-pro", "gemini", 2),
        ("gemini-3-pro", "openrouter", 3),
        # With or without the maker's prefix.
        ("x-ai/grok-4", "openrouter", 3),
        # Elsewhere, the first that knows it.
        ("gemini-3-pro", "somewhere", 2),
        ("gpt-9", "xai", None),
    ],
)
def test_a_models_row_is_looked_for_at_its_upstream_and_then_anywhere(model, upstream, found):
    assert row_of(ROWS, model, upstream) == found
