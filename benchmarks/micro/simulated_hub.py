"""How fast do hubs and clients run in the simulator, checkers included?

    python benchmarks/micro/simulated_hub.py [--json]

Question: how many seeds of `hub-small` a second (1 hub, 3 clients, 200 messages, faults on), and how many deliveries
a second in `hub-large` (1 hub, 1,000 subscribers, half of them smart, no faults)?

Estimate: a small seed is some 140 instants with two turns of a host each, 300 deliveries and six connections: at 15 µs
a turn, 5 µs a delivery and 300 µs a connection about 8 ms, of which the checkers take one. In the large world ten
messages travel as one segment, so a delivery is parsing it, handing it to the subscriber and noting it: 3 µs for a
plain client, 7 µs for a smart one, and 1.5 µs to check it.

Finding: 83 to 121 small seeds (median 93) and 112,000 to 141,000 deliveries a second, on cores shared with others.
The aims are 100 and 100,000. No part of a small seed takes more than a tenth of it; connections and turns are what is
left.

Counted is the processor time of this process, so that what else runs on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import time

from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.campaign import run_campaign
from equipoise.lab.simulation.runner import run_seed

SMALL_SEEDS = 200
LARGE_ROUNDS = 3


def seeds_per_s() -> float:
    run_seed(scenario_by_name("hub-small"), 0)
    began = time.process_time()
    runs = list(run_campaign(["hub-small"], range(SMALL_SEEDS)))
    return len(runs) / (time.process_time() - began)


def deliveries_per_s() -> float:
    """The best of some rounds: the large world is long enough that noise only ever slows it down."""
    scenario = scenario_by_name("hub-large")
    best = 0.0
    for seed in range(LARGE_ROUNDS):
        began = time.process_time()
        run = run_seed(scenario, seed)
        best = max(best, run.deliveries / (time.process_time() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = {"hub_small_seeds_per_s": seeds_per_s(), "hub_large_deliveries_per_s": deliveries_per_s()}
    if options.json:
        print(json.dumps(found))
    else:
        print(f"hub-small   {found['hub_small_seeds_per_s']:10,.0f} seeds/s")
        print(f"hub-large   {found['hub_large_deliveries_per_s']:10,.0f} deliveries/s")


if __name__ == "__main__":
    main()
