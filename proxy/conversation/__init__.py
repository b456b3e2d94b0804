"""Pure: the neutral nouns that all rooms use; imports only errors."""
