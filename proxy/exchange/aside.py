"""Where the next request joins this one, when the client ends it with something that it will not send again.

Some agents end each request with a note for this moment: the time, the open files, a reminder. The next request has the
history without it and so begins with no request that was ever sent: its memory, and every edit with it, would be lost at
every turn, and the prompt cache of what was edited, too. Such a call is remembered once more, as if it had ended earlier:

    [… result] [note]             behind the result
    [… result] [answer] [result and note in one message]      in front of the answer: what is behind it comes back changed
"""

import msgspec

from proxy.exchange.measure import standing_tokens
from proxy.exchange.ready import Ready
from proxy.ledger.records import Anchor


def aside(ready: Ready, anchor: Anchor) -> Anchor | None:
    """The anchor of a call that was answered, as if the call had ended where the next one joins; None where it did."""
    at = ready.joins_at
    if at < 0:
        return None
    messages, usage = ready.received.conversation.messages, anchor.usage
    is_answered = all(message.role != "assistant" for message in messages[at + 1 :])
    if usage is not None:
        behind = sum(standing_tokens(ready.weighed, ready.sent_plan)[at + 1 :])
        left = max(1, (usage.input_tokens or 0) - behind)
        usage = msgspec.structs.replace(
            usage,
            input_tokens=left,
            cache_read_tokens=None if usage.cache_read_tokens is None else min(left, usage.cache_read_tokens),
            cache_write_tokens=None if usage.cache_write_tokens is None else min(left, usage.cache_write_tokens),
            hour_write_tokens=None if usage.hour_write_tokens is None else min(left, usage.hour_write_tokens),
        )
    return msgspec.structs.replace(
        anchor, key=ready.received.keys[at], usage=usage, replies=anchor.replies if is_answered else ()
    )
