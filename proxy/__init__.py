"""pruning-proxy: a streaming reverse proxy that prunes LLM context in flight. The map of the house:

    errors        the exception tree
    conversation  the neutral nouns: messages, parts, fingerprints, pairs, edits
    wire          bytes and JSON: spans, splices, server-sent events, headers
    tokens        counting: usage as reported, estimates, the unified formula, windows
    pricing       prices, the cache model, what a call cost and would have cost
    ledger        what is remembered: anchors, plans, turns
    dialects      the only room that knows a provider's field names
    pruning       deciding what goes
    compaction    deciding what is summarised
    reports       records to JSON, text, HTML and Prometheus
    exchange      one request's life: receive, prepare, observe, settle
    settings      configuration from file, environment and command line
    stores        the ledger on sqlite, in memory, on redis
    server        the listening side, the upstream engines, the handler
    demo          a loopback provider, a recorded session and the show
    cli           the command line

A room imports only rooms above it (tests/test_architecture.py has the few that are side by side).
Each room is wholly pure or wholly I/O and says so in the first line of its docstring.
"""

__version__ = "0.1.0"
