"""Pure: deciding what goes.

The decision:
    plan                    both decisions: results at first sight, and older results
    policy                  `[arrive]` and `[prune]` as values, and the profiles
    situation               what a decision is made from
    standing, results       the results as they stand now, and what never changes about each
First sight:
    arrival, strategies     which strategies run, and the strategies
Older results:
    ages                    which of them may go
    reading                 which of them are needed word for word
    worth, horizon          what a batch costs at once and brings later, over how many calls
    entries                 what a cache with breakpoints still finds behind a change
    purse                   what a conversation has cost, and what edits have saved of that
    placeholder             the text that stands where a result stood
    identifiers             the strings that later turns are most likely to name
    lasting                 those that stand where pruning never touches them
    beginnings              what a tool put before every line, which is no part of them
Reasoning:
    reasoning               what of it is left out, and what must be put in again
    reasoning_rules         what providers want of it, by model family
    gate                    may anything change in front of reasoning that is signed?
"""
