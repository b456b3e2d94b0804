"""I/O: a loopback provider, a recorded session and the show."""
