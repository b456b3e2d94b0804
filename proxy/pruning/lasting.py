"""The identifiers that stand where pruning never touches them: an account that grows with its conversation."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from proxy.conversation.model import Message, Text, ToolCall
from proxy.pruning.identifiers import words, words_of_json


class Lasting:
    """The identifiers in people's words, in the model's own words and in its calls, as far as they were looked at.

    Conversations that begin alike may share one: for the one that has not all of those messages it is begun anew.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._upto = (0, b"")
        """Number of messages that were looked at, and the key behind them."""

    def names(self, messages: Sequence[Message], keys: Sequence[bytes]) -> AbstractSet[str]:
        """Those in these messages. Not a copy: the next request of the conversation adds its own."""
        count, key = self._upto
        if not (0 < count <= len(keys) and keys[count - 1] == key):
            count, self._names = 0, set()
        # Whatever trips below leaves half an account, which the next request must not go on from.
        self._upto = (0, b"")
        for message in messages[count:]:
            for part in message.parts:
                match part:
                    case Text():
                        self._names.update(words(part.text))
                    case ToolCall():
                        self._names.update(words_of_json(part.arguments))
                    case _:
                        pass
        self._upto = (len(keys), keys[-1]) if keys else (0, b"")
        return self._names
