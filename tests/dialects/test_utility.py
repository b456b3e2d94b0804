import pytest

from proxy.conversation.model import NO_TOOLS, Message, Text, ToolResult, Tools
from proxy.dialects import utility
from proxy.dialects.utility import has_summary, is_summary

TOOLS = Tools(digest=b"", text="[]", names=("read",))
COMPACTION = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."
TITLE = "You are a title generator. You output ONLY a thread title."


def is_utility(messages, tools):
    asked = [message for message in messages if message.role == "user"]
    return utility.is_utility(asked[-1] if asked else None, messages, tools)


def said(role, *texts, parts=()):
    return Message(role=role, parts=(*parts, *(Text(text=text) for text in texts)), digest=b"")


@pytest.mark.parametrize(
    "asked",
    [
        COMPACTION,
        "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary",
        "Generate a title for this conversation:",
        "\n  Your task is to create a detailed summary of the conversation so far, paying close attention",
        "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
        "### State Update: Agent Continuity\n\nThe conversation history has been truncated.",
        "You are the component that summarizes a conversation when its context window is about to overflow. The summary",
        "Please provide a concise summary of our conversation so far, capturing the key context, decisions made,",
        "Given the following... please reply with a title for the chat that is 3-4 words in length,",
    ],
)
def test_a_call_whose_last_user_message_asks_for_it_is_a_side_call(asked):
    history = (said("system", "You are an agent"), said("user", "fix it"), said("assistant", "ok"))

    assert is_utility((*history, said("user", asked)), NO_TOOLS)
    # Claude Code's has its tools with it, and stands behind other blocks.
    assert is_utility((*history, said("user", "<system-reminder>x</system-reminder>", asked)), TOOLS)


@pytest.mark.parametrize(
    "system",
    [
        TITLE,
        "You are a helpful AI assistant tasked with summarizing conversations.",
        "You are the component that summarizes internal chat history into a given structure.",
        "You are a context summarization assistant. Your task is to read a conversation",
        "You are a specialized system component responsible for distilling chat history into a structured XML",
        "You are a context summarization agent. You are given a conversation between a user and an agent.",
        "You are naming a coding session so the user can pick it out of a long list of sessions.",
        "Summarize the provided coding session into a concise continuation note with detailed next steps.",
    ],
)
def test_a_call_with_such_a_system_text_and_without_tools_is_a_side_call(system):
    assert is_utility((said("system", system), said("user", "hello")), NO_TOOLS)
    assert not is_utility((said("system", system), said("user", "hello")), TOOLS)


@pytest.mark.parametrize(
    "history",
    [
        (),
        (said("user", "hello"),),
        # Only talks about it.
        (said("user", f"why do you get '{COMPACTION}'?"),),
        (said("system", f"Never say: {TITLE}"), said("user", "hello")),
        # Asked long ago, or said by somebody else.
        (said("user", COMPACTION), said("assistant", "summary"), said("user", "go on")),
        (
            said("user", "read it"),
            said("assistant", COMPACTION),
            said("tool", parts=[ToolResult(call_id="a", text=COMPACTION)]),
        ),
    ],
)
def test_an_ordinary_conversation_is_none(history):
    assert not is_utility(history, NO_TOOLS)


def test_a_summary_is_known_by_how_it_begins():
    assert is_summary("This session is being continued from a previous conversation that ran out of context.")
    assert is_summary("\n<state_snapshot>\n<overall_goal>")
    assert not is_summary("he wrote <state_snapshot>")
    assert not is_summary("")

    assert has_summary([ToolResult(call_id="c", text="<state_snapshot>"), Text(text="<state_snapshot>")])
    assert not has_summary([ToolResult(call_id="c", text="<state_snapshot>"), Text(text="hello")])
