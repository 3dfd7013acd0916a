"""The bookie: stores entries of ledgers on one disk and serves them over BookKeeper's protocol, version 2.

`frame`, `segment_index` and `manifest` are the formats on disk; `segments` writes and reads them through the disk
contract. `engine` decides and is pure except for that disk: requests in, groups to sync and answers out. `server` is
the shell on asyncio, `bookie` adds registration in the store and background work.
"""
