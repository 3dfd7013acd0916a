"""Sample the seats of split topics during a run, and set publisher orders as a fit would.

Without a store hubs cannot read a publisher order. The watch sets it in each hub, and again after each restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from equipoise.hub.cluster.seats import Seats
from equipoise.lab.simulation.checkers import seat_balance
from equipoise.lab.workload.history import SeatSample
from equipoise.limits.seat_order import SeatOrder, pseudonym
from equipoise.model import Entry

if TYPE_CHECKING:
    from equipoise.lab.simulation.cluster.world import ClusterWorld

__all__ = ["begin_seat_watch"]

INTERVAL_S = 0.25
# After this time each topic has an order of the publishers seen so far.
ORDERED_S = 3.0
_KEY = b"seats of a world".ljust(32, b".")


def begin_seat_watch(world: ClusterWorld) -> None:
    """Sample seats until the world is healed, if the scenario checks their balance."""
    if seat_balance.NAME in world.scenario.expectation.properties:
        world.keep(_watch(world))


async def _watch(world: ClusterWorld) -> None:
    began = world.sim.now
    orders: dict[bytes, SeatOrder] = {}
    while True:
        await asyncio.sleep(INTERVAL_S)
        seats = {
            name: node.cluster.redirects.seats
            for name, node in world.hubs.items()
            if node.cluster is not None and node.host.is_up
        }
        for entry in world.directory.plan.replicated:
            dealer = next((one for one in seats.values() if one.deals(entry.topic)), None)
            if dealer is None:
                continue
            if world.sim.now - began >= ORDERED_S:
                _hand_out(orders, entry.topic, dealer, seats)
            world.history.seat_samples.append(_sample(world, entry, dealer, seats))


def _hand_out(orders: dict[bytes, SeatOrder], topic: bytes, dealer: Seats, seats: dict[str, Seats]) -> None:
    clients = sorted(dealer.dealt(topic))
    if topic not in orders and len(clients) > 1:
        orders[topic] = SeatOrder.of(1, _KEY, (pseudonym(client, _KEY) for client in clients))
    for one in seats.values():
        if topic in orders and not one.has_order(topic):
            one.ordered(topic, orders[topic])


def _sample(world: ClusterWorld, entry: Entry, dealer: Seats, seats: dict[str, Seats]) -> SeatSample:
    dealt = dealer.dealt(entry.topic)
    seen: dict[bytes, tuple[str, float]] = {}
    for hub, one in seats.items():
        for client, at in one.seen(entry.topic).items():
            if client not in seen or at > seen[client][1]:
                seen[client] = (hub, at)
    lives = sorted(
        (name, node.cluster.core.incarnation)
        for name, node in world.hubs.items()
        if name in seats and node.cluster is not None
    )
    parts = dealer.parts(entry.topic)
    circumstances = (
        entry,
        tuple(lives),
        tuple(parts.items()),
        tuple(sorted(dealt)),
        dealer.has_order(entry.topic),
    )
    return SeatSample(world.sim.now, entry.topic.decode(), circumstances, parts, dealt, seen)
