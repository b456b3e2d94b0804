"""I/O: the ledger in memory, on sqlite, on redis."""
