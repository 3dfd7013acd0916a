"""Measure the memory of hub and clients from their queues, not from their counters.

Samples are taken at intervals of virtual time. The history keeps the peak of each resource with its bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from equipoise.client.inbox import Batch
from equipoise.client.wire.requests import Ticket
from equipoise.hub.data.session import Session
from equipoise.lab.simulation.outflow import HIGH_WATER_BYTES
from equipoise.lab.simulation.simulated_hub import SimulatedHub
from equipoise.lab.workload import Driven, History, SmartClient

__all__ = ["INTERVAL_S", "measure_forever"]

INTERVAL_S = 0.25
# The output for a client may exceed its limit by one piece: a whole segment of pipelined publishes, encoded.
PIECE_BYTES_MAX = 2 * HIGH_WATER_BYTES


async def measure_forever(
    hubs: Collection[SimulatedHub], clients: Collection[Driven], history: History
) -> None:
    """Run on the observer until cancelled."""
    smart = [client for client in clients if isinstance(client, SmartClient)]
    while True:
        await asyncio.sleep(INTERVAL_S)
        for hub in list(hubs):
            measure_hub(hub, history)
        for client in smart:
            measure_client(client, history)


def measure_hub(hub: SimulatedHub, history: History) -> None:
    if hub.hub is None:
        return
    core, limits = hub.hub.core, hub.settings.limits
    sessions = core.sessions
    output = inputs = 0
    for session in sessions.values():
        output = max(output, unsent_bytes(session))
        inputs = max(inputs, unread_bytes(session))
    for lagging, backlog in core.backlogs.lagging.items():
        held = sum(len(piece[0]) for piece in backlog.pieces)
        output = max(output, held + lagging.wire.get_write_buffer_size())
    history.sample(
        hub.name, "bytes of output for one client", output, limits.output_bytes_max + PIECE_BYTES_MAX
    )
    history.sample(hub.name, "bytes of input from one client", inputs, limits.input_bytes_max)
    history.sample(hub.name, "connections", len(sessions), limits.connections_max)
    history.sample(hub.name, "topics", len(core.index.topics), limits.topics_max)
    measure_cluster(hub, history)


def measure_cluster(hub: SimulatedHub, history: History) -> None:
    """Sample a hub's messages for other hubs: sent to homes, queued for links, and unacknowledged by peers."""
    cluster, settings = hub.cluster, hub.settings.cluster
    if cluster is None:
        return
    held = pending = 0
    for topic in cluster.core.index.topics.values():
        if topic.stream is not None:
            admission = topic.stream.admission
            for items in (admission.routing, *admission.waiting.values()):
                held += sum(len(payload) for item in items for payload in item.payloads)
            pending += sum(arrival.size for arrival in topic.stream.pending)
    kept = max((link.kept_bytes for link in cluster.out.values()), default=0)
    # A hub may exceed each bound by one piece.
    piece = hub.settings.limits.input_bytes_max
    history.sample(hub.name, "bytes on the way to homes", held, settings.pending_bytes_max)
    history.sample(hub.name, "bytes before their turn", pending, settings.pending_bytes_max + piece)
    history.sample(hub.name, "bytes that a peer has not acknowledged", kept, settings.link_bytes_max + piece)


def unsent_bytes(session: Session) -> int:
    return session.wire.get_write_buffer_size()


def unread_bytes(session: Session) -> int:
    return session.unread_bytes


def measure_client(client: SmartClient, history: History) -> None:
    settings = client.settings
    for subscription in client.subscriptions.values():
        entries = subscription._inbox._entries
        waiting = sum(len(entry.payloads) if isinstance(entry, Batch) else 1 for entry in entries)
        waiting -= subscription._inbox._taken
        bound = settings.queue_messages_max
        history.sample(client.name, "messages waiting in a subscription", waiting, bound)
    connection = client.bus._routing.base.connection if client.bus is not None else None
    if connection is not None:
        # Plain sizes are publishes without receipts. The greeting has a ticket beyond the window.
        under_way = sum(isinstance(entry, int | Ticket) for entry in connection.in_flight._entries)
        bound = settings.in_flight_messages_max + 1
        history.sample(client.name, "publishes without an answer", under_way, bound)
