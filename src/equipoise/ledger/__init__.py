"""Ledgers: append-only logs replicated over bookies by BookKeeper's protocol, version 2. Pure.

Start with `log`: the contract that durable topics use. `memory` implements it without bookies, for tests and
simulations. `entry` is the format of one entry, `wire` the frames between a client and a bookie, `metadata` the node of
a ledger in the store, `quorum` the arithmetic. `writer` and `recovery` are state machines: events in, effects out. The
layer above executes the effects over sockets and the store.
"""
