"""What edits replaced, fetched from the ledger for whoever asks to see it."""

from collections.abc import Sequence

from proxy.conversation.edit import Edit
from proxy.ledger.originals import Original, original_id
from proxy.ledger.store import Ledger


async def kept_originals(ledger: Ledger, session: str, edits: Sequence[Edit]) -> dict[bytes, Original]:
    """The originals of these edits that are kept, by id."""
    ids = list(dict.fromkeys(filter(None, map(original_id, edits))))
    found = await ledger.originals(session, ids)
    return {original.id: original for original in found if original is not None}
