"""Ledgers over bookies: the shell of the ledger client.

`ledgers` implements the contract of `equipoise.ledger.log`. `bookie_link` is a connection to one bookie, `bookie_pool`
holds all connections and the registrations of bookies in the store. `ledger_writer` and `ledger_recovery` execute the
effects of the pure writer and recovery. `ledger_reader` reads entries from any member with a valid copy. `repair`
copies ledgers off lost bookies, `ledger_relocation` copies them to another site.
"""
