"""The summary that the provider writes without a model."""

from proxy.compaction.prompt import INSTRUCTION
from proxy.demo.provider.answers import Recording
from proxy.demo.provider.asked import Asked, Unit
from proxy.demo.provider.extractive import asks_for_summary, extracted, summary

TEXTS = ("Repair build.py.", "Never touch `legacy_core`.", "All 12 tests pass.")


def asked(*texts, by_user=True):
    return Asked(
        body={},
        model="m",
        units=tuple(Unit(rendered=b"", texts=(text,), overhead=0) for text in texts),
        stream=False,
        assistants=0,
        last_text=texts[-1],
        last_is_user=by_user,
        tools=(),
    )


def test_the_instruction_is_recognised_alone_and_behind_a_history():
    assert asks_for_summary(asked("hello", INSTRUCTION))
    assert asks_for_summary(asked(f"a history\n\n{INSTRUCTION}"))
    assert not asks_for_summary(asked("hello"))
    assert not asks_for_summary(asked(INSTRUCTION, by_user=False))


def test_the_summary_keeps_goal_rules_and_names_and_leaves_the_instruction_out():
    text = summary(asked('[{"type":"function"}]', *TEXTS, INSTRUCTION), {}).text

    assert text.startswith("## Goal\nRepair build.py.")
    assert "- Never touch `legacy_core`." in text
    assert "legacy_core" in text.partition("identifiers")[2]
    assert "headings" not in text
    assert "function" not in text


def test_the_summary_is_bounded():
    assert len(extracted([f"Line {number} must name file_{number}.py." for number in range(5000)], 2000)) < 2600


def test_a_recording_answers_the_instruction_with_a_summary():
    session = [{"role": "user", "content": "begin"}, {"role": "assistant", "content": "done"}]

    assert Recording(session)(asked(*TEXTS, INSTRUCTION), {}).text == summary(asked(*TEXTS, INSTRUCTION), {}).text
