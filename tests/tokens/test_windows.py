import pytest

from proxy.tokens.windows import UNKNOWN, Limits, limits_for


@pytest.mark.parametrize(
    ("model", "window", "max_output", "max_input"),
    [
        ("gpt-4o-2024-08-06", 128_000, 16_384, None),
        ("gpt-4.1-mini", 1_047_576, 32_768, None),
        ("gpt-5", 400_000, 128_000, 272_000),
        ("openai/gpt-5-mini", 400_000, 128_000, 272_000),
        ("gpt-5.4", 1_050_000, 128_000, 922_000),
        ("o3", 200_000, 100_000, None),
        ("claude-sonnet-4-5-20250929", 200_000, 64_000, None),
        ("claude-3-haiku-20240307", 200_000, 4096, None),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, 64_000, None),
        ("claude-opus-5-5", 1_000_000, 64_000, None),
        ("gemini-3-pro-preview", 1_048_576, 65_536, None),
        ("models/gemini-2.5-pro", 1_048_576, 65_536, None),
        ("glm-4.7", 200_000, 131_072, None),
        ("grok-4.7", 500_000, None, None),
        ("kimi-k2-thinking", 262_144, None, None),
    ],
)
def test_known_models_have_their_limits(model, window, max_output, max_input):
    assert limits_for(model) == Limits(window=window, max_output=max_output, max_input=max_input)


@pytest.mark.parametrize("model", ["", "m-test", "my-own-finetune", "💥", "a" * 10_000])
def test_unknown_is_none(model):
    assert limits_for(model) == UNKNOWN


def test_the_upstreams_own_row_wins_over_the_makers():
    """A host may serve a model with less context than its maker."""
    assert limits_for("minimax-m3").window == 1_000_000
    assert limits_for("accounts/fireworks/models/minimax-m3", upstream="fireworks").window == 524_288


def test_the_configuration_wins_field_by_field():
    limits = limits_for("gpt-5", overrides=Limits(window=100_000))

    assert limits == Limits(window=100_000, max_output=128_000, max_input=None)


def test_the_configuration_teaches_unknown_models():
    overrides = Limits(window=32_768, max_output=4096)

    assert limits_for("m-test", overrides=overrides) == overrides
