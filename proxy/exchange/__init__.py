"""Pure: one request's life in four verbs: receive, prepare, observe, settle. (Observing is the dialects' `Reader`.)

The verbs:
    receive                 path and body → a recognised request, and the keys under which memory is looked up
    prepare                 replay, predict, decide, write what goes out
    settle                  what was sent and what came back → the anchor and the row that the ledger keeps
What they hand on:
    policy, ready, decided  the settings that concern a call; a request under a plan, weighed and written; what is new in the plan
Parts of preparing:
    foregone                requests about which nothing is left to decide
    weigh, measure, tally   what a request weighs: before any plan, under one, and its tool results alone
    counted                 what of it the provider has counted, and at which rate
    warmth, spent           what of it the provider's cache may still hold; reasoning that counts no more
    situations              what decisions are made from
    early, compact          compaction without a model, and with one
    alternating, queue      what servers want of roles; messages that people queued
    reasoning, binding      reasoning stripped or put in again; reasoning that is signed over what stands before it
Parts of settling:
    aside                   where the next request joins this one
    money, quoting          what the call cost and saved; regret
    originals               what its edits replaced
Conversations that are over:
    transcripts, rehearsal  read from files, and played under a policy
"""
