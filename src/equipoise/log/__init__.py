"""The log of one topic and Redis's stream commands on it. Pure.

A log is a list of records, in the order in which they were appended. `records` says what they are and how they are
stored, `topic_log` folds them into the state of a stream: entries, groups, consumers, pending entries, producers. A
command (`append`, `read`, `groups`, `pending`, `info`; found through `commands`) reads that state, changes it through
records only, and gives the reply that is due once these records are committed.

The layer above appends the records to a ledger and holds replies until then.
"""
