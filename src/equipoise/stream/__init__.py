"""One topic's ordered messages, for home, relay and client: positions, cursors, parts, merging. Pure.

A relay hub and a subscribing client do the same: receive a stream from sources that repeat, lag or race each other, and
deliver every position once, in order. They share the values (`position`, `parts`) and the comparison (`cursor`). Each
has its own engine (`relay`, `merge`); docs/decisions/0012 gives the reasons.
"""
