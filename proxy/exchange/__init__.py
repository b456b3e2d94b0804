"""Pure: one request's life in four verbs: receive, prepare, observe, settle."""
