"""Pure: deciding what is summarised."""
