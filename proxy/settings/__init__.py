"""I/O: configuration from file, environment and command line.

values, section         every setting with its default; what a section of them is
sources, load           where settings are written; which of them wins
kinds, checks           what a value must be by itself, and beside others
detours                 HTTP proxies that the environment names
"""
