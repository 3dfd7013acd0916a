"""One topic's ordered messages, for home, relay and client: positions, cursors, parts, merging. Pure.

A hub that relays and a client that subscribes do the same thing: take a stream from sources that repeat, lag or race
each other, and pass every position on once, in order. They share the words (`position`, `parts`) and the comparison
(`cursor`). Each has an engine of its own (`relay`, `merge`); docs/decisions/0012 says why.
"""
