"""I/O: the listening side, the upstream engines, the handler."""
