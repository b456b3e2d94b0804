"""I/O: configuration from file, environment and command line."""
