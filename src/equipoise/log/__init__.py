"""The log of one topic and Redis's stream commands on it. Pure.

A log is a list of records in the order in which they were appended. `records` defines their meaning and encoding.
`topic_log` folds them into the state of a stream: entries, groups, consumers, pending entries, producers. The commands
(`append`, `read`, `groups`, `pending`, `info`; listed in `commands`) read that state and change it through records
only. A command returns the reply that may be sent once its records are committed.

The layer above appends the records to a ledger and holds each reply until its records are committed.
"""
