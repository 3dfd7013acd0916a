"""The benchmark: hub, Redis and NATS driven with the same load, side by side in one run.

Pure: `cases` (what is measured), `dialects` (bytes of each protocol), `goals`, `statistics`, `result`,
`report`. Shell: `servers` (child processes), `meters` (what the kernel says of them), `audience` and
`driver` (sockets), `paced` and `idle` (latency, memory), `environment` (machine, commit and versions),
`fanout` (the run as a whole).
"""
