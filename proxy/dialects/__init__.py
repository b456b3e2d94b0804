"""Pure: the only room that knows a provider's field names."""
