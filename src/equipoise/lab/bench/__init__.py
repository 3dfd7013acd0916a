"""The benchmark: hub, Redis and NATS driven with the same load, side by side in one run.

Pure: `cases` (the measured cases), `dialects` (bytes of each protocol), `goals`, `statistics`, `result`,
`report`. Shell: `servers` (child processes), `meters` (their CPU time and memory), `audience` and
`driver` (sockets), `paced` and `idle` (latency, memory), `environment` (machine, commit and versions),
`fanout` (the run as a whole).
"""
