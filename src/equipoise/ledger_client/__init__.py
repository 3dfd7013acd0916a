"""Ledgers over bookies: the shell of the ledger client.

`ledgers` implements the contract of `equipoise.ledger.log`. `bookie_link` is a connection to one bookie, `bookie_pool`
all of them and what the store says of bookies. `ledger_writer` and `ledger_recovery` carry out the effects of the pure
writer and recovery, `ledger_reader` reads entries from any member that has a valid copy, `repair` copies ledgers off
lost bookies.
"""
