"""Pure: records to JSON, text, HTML and Prometheus.

sessions, overview      the list of conversations; what stood in a newest request
edits                   a conversation's edits
accuracy, spread        how far estimates were off, and how errors spread
savings, dashboard      what was saved; what the dashboard shows beyond that
replay                  the answer of `pruning-proxy replay`
screens, columns, words all of them on a terminal; numbers as people read them
metrics                 `/metrics` of one process
metric_families         its counters as prometheus-client wants them
metric_sums             … of several processes
pages                   the dashboard's files
"""
