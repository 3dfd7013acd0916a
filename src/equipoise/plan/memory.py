"""What a policy remembers from one round to the next, as a value.

The same view, plan, specs, time and memory always give the same decision; so a decision can be replayed from what was
stored of its round, and a standby that has the last memory goes on where the leader stopped. A planner that starts with
an empty memory is careful, not wrong: it counts its hits anew.

Memories are never changed in place, and their tables only hold what is recent or still true.
"""

from __future__ import annotations

import msgspec

from equipoise.errors import ViewError
from equipoise.plan.arbiter import Arbiter
from equipoise.plan.noise import HubNoise
from equipoise.plan.profile import HubProfile

__all__ = ["Approach", "Hits", "Memory", "Released", "decode_memory", "encode_memory"]

LONG_AGO_S = -1e18


class Hits(msgspec.Struct, frozen=True, array_like=True):
    """Evidence: how much, and the time of the view that gave the last of it."""

    count: int
    at_s: float


class Approach(msgspec.Struct, frozen=True, array_like=True):
    """Moves of one topic for latency: the last one, the hubs that it left lately, how often it came back to one."""

    at_s: float
    left: tuple[str, ...]
    # Since it was last within its limit for long enough to have settled.
    returns: int = 0
    # For how long views have shown it within its limit since it was last above it.
    near_s: float = 0.0


class Released(msgspec.Struct, frozen=True, array_like=True):
    """Which life of a hub was taken out of the plan, and when."""

    incarnation: int
    at_s: float


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All state of the planner. Times are on the clock of `now`."""

    # The last view that was decided on; the same one again is no new evidence.
    view_s: float = LONG_AGO_S
    # The last plan that was made for load: T_wait counts from here.
    plan_s: float = LONG_AGO_S
    # The last change of members or weights: until it has settled, views show topics where they were.
    members_s: float = LONG_AGO_S
    # Sharing out after a join ends then.
    spread_until_s: float = LONG_AGO_S

    # How often in a row a hub was seen overloaded, and when last.
    hits: dict[str, Hits] = {}
    # How often in a row a topic was seen to need more homes (positive) or fewer (negative).
    replica_hits: dict[bytes, Hits] = {}
    # When a topic's entry was last changed for load, and when its replication was.
    moved_s: dict[bytes, float] = {}
    replicated_s: dict[bytes, float] = {}
    # Since when a topic that has an entry has not been in a view.
    absent_s: dict[bytes, float] = {}

    # How often in a row a topic was seen above its latency limit; moves for latency that are not long ago.
    far_hits: dict[bytes, Hits] = {}
    approaches: dict[bytes, Approach] = {}

    # Hubs: the life that was last planned for, since when one is dead, since when one is a member.
    incarnations: dict[str, int] = {}
    dead_s: dict[str, float] = {}
    joined_s: dict[str, float] = {}
    profiles: dict[str, HubProfile] = {}
    noises: dict[str, HubNoise] = {}
    # What the servers would carry on average with one less; a slow mean, below 0 if there is none yet.
    average_without_one: float = -1.0
    # The same when a server could last not be emptied; below 0: that has not happened.
    kept_average: float = -1.0

    # What missing capacity has cost since it is missing, and what every server too many has.
    overload_debt: float = 0.0
    idle_debts: tuple[float, ...] = ()
    # Servers asked for in all, and when; 0: as many as there are.
    servers_wanted: int = 0
    asked_s: float = LONG_AGO_S
    # The hub being emptied, since when, the weight it had, and since when it holds nothing; and the hubs that are out
    # of the plan by the planner's own doing.
    releasing: str = ""
    releasing_s: float = LONG_AGO_S
    releasing_weight: int = 0
    emptied_s: float = LONG_AGO_S
    released: dict[str, Released] = {}

    arbiter: Arbiter = Arbiter()


_decoder = msgspec.msgpack.Decoder(Memory)
_encoder = msgspec.msgpack.Encoder()


def encode_memory(memory: Memory) -> bytes:
    return _encoder.encode(memory)


def decode_memory(data: bytes) -> Memory:
    """Raises ViewError if the bytes are no memory: start with an empty one."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ViewError(f"not a planner's memory: {problem}") from problem
