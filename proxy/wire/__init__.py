"""Pure: bytes and JSON, no provider's name."""
