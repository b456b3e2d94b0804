"""Pure: what can be done to a result at first sight, one strategy a file."""
