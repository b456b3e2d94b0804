import pytest

from proxy.pruning.reasoning_rules import OPTIONAL, REFUSED, learned_rule, reasoning_rule


@pytest.mark.parametrize(
    ("upstream", "model", "demands"),
    [
        # DeepSeek, at home and behind routers
        ("deepseek", "deepseek-reasoner", "all"),
        ("deepseek", "deepseek-chat", "all"),
        ("openrouter", "deepseek/deepseek-v3.2", "all"),
        ("dashscope", "deepseek-v4", "all"),
        ("together", "deepseek-ai/DeepSeek-V3", ""),
        # Kimi
        ("moonshot", "kimi-k2-thinking", "calls"),
        ("moonshot", "kimi-k2.5", "calls"),
        ("openrouter", "moonshotai/kimi-k2-thinking-turbo", "calls"),
        ("moonshot", "kimi-k2-0905-preview", ""),
        # Google
        ("gemini", "gemini-3-pro-preview", "open_calls"),
        ("openai", "google/gemini-3.5-flash", "open_calls"),
        ("gemini", "gemini-2.5-pro", ""),
        # Anthropic
        ("anthropic", "claude-sonnet-4-5", "open_calls"),
        ("anthropic", "us.anthropic.claude-opus-5-5-v1:0", "open_calls"),
        # OpenAI
        ("openai", "gpt-5.4-codex", "named"),
        ("openai", "o3", "named"),
        ("openai", "gpt-4o", ""),
        ("groq", "openai/gpt-oss-120b", ""),
        # nobody knows
        ("ollama", "llama3", ""),
        ("xai", "grok-4", ""),
    ],
)
def test_the_table_knows_who_demands_what(upstream, model, demands):
    assert reasoning_rule(model, upstream=upstream).demands == demands


def test_only_google_wants_signatures_and_only_openai_keeps_its_items():
    assert reasoning_rule("gemini-3-pro").signatures
    assert reasoning_rule("gpt-5.4").keeps
    assert not reasoning_rule("claude-opus-5-5").keeps


@pytest.mark.parametrize(
    ("model", "drops"),
    [
        ("claude-3-7-sonnet-20250219", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-sonnet-4-0", True),
        ("claude-opus-4-1-20250805", True),
        ("anthropic/claude-sonnet-4.5", True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-5", False),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-8", False),
        ("claude-opus-5", False),
        ("claude-sonnet-5-5", False),
        ("gpt-5.4", False),
    ],
)
def test_claude_before_opus_4_5_drops_the_thinking_of_earlier_turns(model, drops):
    assert reasoning_rule(model).drops is drops
    assert reasoning_rule(model).demands


def test_a_host_may_have_a_rule_of_its_own():
    assert reasoning_rule("deepseek-r1", upstream="deepseek").refuses
    assert reasoning_rule("deepseek-r1", upstream="ollama") == OPTIONAL


def test_the_setting_comes_before_the_table():
    assert reasoning_rule("m", must_pass_back=True).demands == "all"
    assert reasoning_rule("deepseek-reasoner", must_pass_back=False) == OPTIONAL


def test_lessons_of_refusals():
    signatures = reasoning_rule("gemini-3-pro")

    assert learned_rule(OPTIONAL, "demanded").demands == "all"
    assert learned_rule(signatures, "demanded").signatures
    assert learned_rule(signatures, "demanded").demands == "all"
    assert learned_rule(signatures, "refused") == REFUSED
    assert learned_rule(OPTIONAL, "bound").binds
    assert learned_rule(signatures, "") is signatures
