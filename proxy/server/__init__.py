"""I/O: the listening side, the upstream engines, the handler.

What a process is:
    app, workers, imports   the door and its process; several of them on one port; a fast start
    assembly, policies      what a process is made of; settings, resolved for one upstream and model
    descriptors, heap       how many connections there may be; freed memory goes back to the system
The client's side:
    protocol, target        HTTP/1.1, and what a request's target may be
    cycle, incoming         one request and its answer as ASGI sees them; its body, and whether its sender is still there
    admission               what a request's head decides, kept for the next one that says the same
    keys, caller            who may use the proxy, and whose call it is
One call, in this order:
    relay                   every call: request in, answer out, and how both end
    handler, call           a call that is to be read, top to bottom; what stands for it on its way
    decide, reading, past   its body read and weighed, its conversation remembered, its edits decided
    exact, ahead            the provider's own count where the estimate cannot decide; a call that is sent before it is predicted
    dispatch, engines       on its way to the upstream
    send, peeking           the answer's beginning, and the second try that it may be worth
    rescue, reconcile       … after an overflow; … after a refusal that is about reasoning
    refusals                errors of ours as the client's SDK reads them
    forwarding, heartbeat   the answer on its way to the client, and signs of life while it is silent
    copying                 … and to whoever reads it meanwhile
    settling, settler       what is done once the last byte is out: measured, told and remembered
    summarizer, behind      calls for summaries, in the foreground and behind; when those behind are begun
    newcomers, written      who may have one begun; … and what they gave, for every process
What it learns:
    learning, habits        from actual counts; from refusals
    lifetimes, tokenizers   how long conversations were; how texts are counted
    bounded                 tables by model, never longer than that
What it tells:
    watch                   all that is to be noticed of a call, in one place
    events, spoken          the log; a call in one line of it, for people
    outlet, tracing         where its lines leave the process; OpenTelemetry
    feed, numbers, slots    events for whoever watches; the numbers of `/metrics`, and those of fellow workers
    control, board          pages and API; what people order there
    originals               what edits replaced
The event loop:
    pace, deadline          long steps in turns; timers that hardly ever come
The command line's part:
    terminal, inquiry       the reporting commands, and where their reports come from
    playback, transcripts   `replay` and the conversations that it reads
"""
