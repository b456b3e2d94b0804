"""Conversations whose very first call is so long that a summary falls due: is one worth beginning?

A conversation from before a restart is such a one, and goes on. Of a client that changes the beginning of its history at each
call (the time in its first message), every call is one, and no summary of it is ever of use.
"""


class Newcomers:
    """As long as one of them has not gone on, the next ones may be more of the same: they wait for their second call."""

    def __init__(self) -> None:
        self._last = ""
        """Session of the last one; empty when it went on."""

    def may_have_one(self, session: str, *, is_new: bool) -> bool:
        """Whether a summary may be begun behind the back of this session's client, for which one is due."""
        if not is_new:
            if session == self._last:
                self._last = ""
            return True
        allowed = self._last in ("", session)
        self._last = session
        return allowed
