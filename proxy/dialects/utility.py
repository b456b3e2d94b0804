"""Clients' own side calls: titles, summaries, compactions. They get the inherited plan and no new decisions.

The marks are those that unmodified clients were seen to send; each is bound to its place (last user text, system
text), so that a conversation which merely talks about them is not taken for one.
"""

from collections.abc import Iterable, Sequence

from proxy.conversation.model import Message, Part, Text, Tools

# In the last user message.
_ASKS = (
    "CRITICAL: Respond with TEXT ONLY",  # Claude Code compaction
    "You are performing a CONTEXT CHECKPOINT COMPACTION",  # Codex
    "Generate a title for this conversation",  # opencode, Kilo
    "Your task is to create a detailed summary of the conversation so far",  # Claude Code, older
    "First, reason in your scratchpad. Then, generate the <state_snapshot>",  # Gemini CLI, Qwen Code
    "### State Update: Agent Continuity",  # Gemini CLI
    "You are the component that summarizes a conversation when its context window is about to overflow",  # Qwen Code
    "Please provide a concise summary of our conversation so far, capturing the key context",  # Continue
    "Given the following... please reply with a title for the chat",  # Continue
)
# At the start of the system text.
_SYSTEMS = (
    "You are a title generator",  # opencode, Kilo
    "You are a helpful AI assistant tasked with summarizing conversations",  # opencode, Claude Code
    "You are the component that summarizes internal chat history",  # Gemini CLI, Qwen Code
    "You are a specialized system component responsible for distilling chat history",  # Gemini CLI
    "You are a context summarization assistant",  # pi
    "You are a context summarization agent",  # opencode
    "You are naming a coding session",  # Claude Code
    "Summarize the provided coding session into a concise continuation note",  # Cline
)

# At the start of a user message: the history before it was already replaced by this text.
_SUMMARIES = (
    "This session is being continued from a previous conversation",  # Claude Code
    "<state_snapshot>",  # Gemini CLI, Qwen Code
    "Another language model started to solve this problem and produced a summary",  # Codex
)


def is_summary(text: str) -> bool:
    """Whether a client put this text in the place of an older history."""
    return text.lstrip().startswith(_SUMMARIES)


def has_summary(parts: Sequence[Part]) -> bool:
    """Whether such a text stands among the parts of a message."""
    return _begins(parts, _SUMMARIES)


def is_utility(asked: Message | None, messages: Iterable[Message], tools: Tools) -> bool:
    """Whether this request is a client's side call.

    `asked`: the last user message. `messages` includes system messages that lead the history.
    """
    if asked is not None and _begins(asked.parts, _ASKS):
        return True
    if tools.names:
        return False
    for message in messages:  # noqa: SIM110  as in `_begins`
        if message.role == "system" and _begins(message.parts, _SYSTEMS):
            return True
    return False


def _begins(parts: Sequence[Part], marks: tuple[str, ...]) -> bool:
    """Whether a text among the parts begins with one of these."""
    for part in parts:  # noqa: SIM110  to make a generator takes longer than to look at the few parts
        if isinstance(part, Text) and part.text.lstrip().startswith(marks):
            return True
    return False
