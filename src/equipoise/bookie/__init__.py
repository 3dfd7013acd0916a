"""The bookie: stores entries of ledgers on one disk and serves them over BookKeeper's protocol, version 2.

`frame`, `segment_index` and `manifest` are the formats on disk; `segments` writes and reads them through the disk
contract; `engine` decides, pure but for that disk: requests in, groups to sync, answers out. `server` is the shell on
asyncio, `registration` what the store says of the bookie.
"""
