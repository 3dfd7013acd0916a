"""Consistent hashing of the authors of Dynamoth, as a baseline.

In the paper, servers shed 1/N of their load to a new server, and a server is added if one is overloaded (V-D). The
released program uses lists and not a ring: when one of n servers is above 0.80 and another is available, each of the n
gives it 1/(n·(n + 1)) of its channels, picked at even distances. The new server thus starts with far less than an equal
share, and with eight servers the first two keep a third of all channels each. A ring with many points,
`equipoise.plan.policies.ConsistentHashing`, gives equal numbers; both are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from xxhash import xxh3_64_intdigest

from equipoise.model import Entry, Member, Plan, PlanChange, Reason, Specs, Why
from equipoise.plan import Decision, Memory
from equipoise.view import View

__all__ = ["Shedding", "shed_placement"]

# As released.
HIGH_RATIO = 0.80
WAIT_S = 20.0


class Shedding:
    """A policy. Topics move only to a joining server; it replicates no topic and releases no server."""

    name = "shedding"

    def __init__(self, servers_max: int) -> None:
        self._servers_max = servers_max

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        members = [member.hub for member in plan.members]
        living = [hub.name for hub in view.hub_rows() if hub.is_alive]
        joining = [name for name in living if name not in members]
        if joining:
            why = Why(Reason.JOINED, {"servers": float(len(members))})
            given = _given(view, plan, members, joining[0])
            change = PlanChange.on(plan, why, set_members=[Member(joining[0], weight=0)], set_entries=given)
            return _decision(change, msgspec.structs.replace(memory, plan_s=now), len(living), len(living))
        ratio = _ratios(view, members)
        is_due = len(ratio) and ratio.max() > HIGH_RATIO and now - memory.plan_s >= WAIT_S
        wanted = max(memory.servers_wanted, len(members))
        if is_due and wanted == len(members) < self._servers_max:
            wanted += 1
        memory = msgspec.structs.replace(memory, servers_wanted=wanted)
        return _decision(PlanChange.on(plan, Why(Reason.JOINED)), memory, wanted, len(members))

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        ratio = _ratios(view, list(view.hubs.names))
        return bool(len(ratio)) and bool(ratio.max() > HIGH_RATIO)


def shed_placement(topics: Iterable[bytes], servers: Sequence[str]) -> dict[str, list[bytes]]:
    """The placement after these servers joined one after the other, the first with all topics."""
    at = {servers[0]: list(topics)}
    for server in servers[1:]:
        given = set(_shed(at))
        at = {name: [topic for topic in has if topic not in given] for name, has in at.items()}
        at[server] = sorted(given)
    return at


def _given(view: View, plan: Plan, members: list[str], to: str) -> list[Entry]:
    """The channels that each member gives to a new server."""
    at: dict[str, list[bytes]] = {name: [] for name in members}
    for topic in view.topics.names:
        at[plan.home_of(topic).homes[0]].append(topic)
    return [Entry(topic, (to,)) for topic in _shed(at)]


def _shed(at: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    count, given = len(at), []
    for has in at.values():
        # In the order of hashes, as in a hash table.
        channels = sorted(has, key=xxh3_64_intdigest)
        share = round(len(channels) / (count * (count + 1)))
        step = len(channels) // share if share else 0
        given += channels[::step][:share] if share else []
    return given


def _ratios(view: View, members: list[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    hubs = [view.hub(name) for name in members if name in view.hub_index]
    full = [hub for hub in hubs if hub.out_bytes_per_s_max > 0]
    return np.array([hub.out_bytes_per_s / hub.out_bytes_per_s_max for hub in full])


def _decision(change: PlanChange, memory: Memory, wanted: int, at_work: int) -> Decision:
    return Decision(change=change, memory=memory, servers_wanted=wanted, servers_at_work=at_work)
