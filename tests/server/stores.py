"""A ledger that works, and one of which some methods do not."""

from proxy.errors import StoreError
from proxy.stores.memory import MemoryStore


def a_store():
    return MemoryStore(ttl_s=3600.0, clock=lambda: 1000.0)


class Failing(MemoryStore):
    """A store of which these methods do not work, until `mended` is set."""

    def __init__(self, *methods, error=StoreError):
        super().__init__(ttl_s=3600.0, clock=lambda: 1000.0)
        self.mended = False
        for method in methods:
            setattr(self, method, self._failing(getattr(self, method), error))

    def _failing(self, works, error):
        async def fail(*given):
            if not self.mended:
                raise error("the store is gone")
            return await works(*given)

        return fail
