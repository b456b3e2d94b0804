"""Pure: deciding what goes."""
