"""Ledgers: append-only logs replicated over bookies by BookKeeper's protocol, version 2. Pure.

Start with `log`: what a durable topic asks of ledgers. `memory` answers it without bookies, for tests and simulations.
`entry` is the format of one entry, `wire` the frames between a client and a bookie, `metadata` the node of a ledger in
the store, `quorum` the arithmetic. `writer` and `recovery` are state machines: events in, effects out. The layer above
carries the effects out over sockets and the store.
"""
