"""Settings of the demo's processes: the same policies at shorter intervals. Pure.

By default a server is rented for at least a minute and a topic stays for a minute after a move, which is right for paid
servers and too slow to watch. Here all waits are seconds, and only bandwidth counts as load, so that other work of the
machine moves no topics.
"""

from __future__ import annotations

from equipoise.lab.demo.acts import HUB_BYTES_PER_S

__all__ = ["CONTROLLER_TOML", "CONTROLLER_WORDS", "HUB_TOML"]

HUB_TOML = f"[telemetry]\nout_bytes_per_s_max = {HUB_BYTES_PER_S}\n"

CONTROLLER_TOML = """\
[planner]
cpu_full_ratio = 2.0
loop_lag_full_s = 2.0
plan_wait_s = 4.0
severe_wait_s = 2.0
hits = 2
merge_hits = 2
topic_wait_s = 5.0
settle_s = 3.0
replication_wait_s = 6.0
rental_min_s = 3.0
release_steps = 2
release_wait_s = 3.0
join_spread_s = 5.0
server_lead_s = 8.0
"""
# A round each second, the interval of views.
CONTROLLER_WORDS = ("--period", "1")
