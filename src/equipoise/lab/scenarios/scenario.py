"""A scenario: topology, workload, faults, duration, expectation.

A scenario is a value. Simulation, benchmarks, demo and experiments read the same ones; what none of them needs
to know is left at its default. A `Scenario` has one hub, a `ClusterScenario` several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from equipoise.lab.scenarios.access import Access
from equipoise.lab.scenarios.faults import Fault
from equipoise.lab.scenarios.workload import Client, Workload
from equipoise.model import Mode

__all__ = ["RARE", "ClusterScenario", "Expectation", "NetworkShape", "Scenario", "Times"]

RARE = 10

# How often something happens in one run: drawn between the two, both included.
Times: TypeAlias = tuple[int, int]
NEVER: Times = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkShape:
    """What is between the machines. A range is drawn from once per run; below zero counts as zero, so that a range
    which begins there leaves the trouble out of some runs."""

    # `lan`, `star`, `sites` or `cities`, as in equipoise.lab.simulation.topology; among several hubs also `uneven`
    # (latencies between hubs differ up to a hundredfold) and `scattered` (those of clients, too) and `long-way`.
    shape: str = "lan"
    latency_s: tuple[float, float] = (0.000_2, 0.000_2)
    jitter_s: tuple[float, float] = (0.0, 0.0)
    # The chance that a packet is lost, which shows as delay.
    loss: tuple[float, float] = (0.0, 0.0)
    # What the kernels of both ends buffer for one connection: small, so that a slow reader is soon felt.
    window_bytes: int = 256 * 1024
    # The chance that a received piece arrives in two.
    split: tuple[float, float] = (0.0, 0.0)
    # Between sites: (one, other, seconds).
    round_trips_s: tuple[tuple[str, str, float], ...] = ()
    # Where the hub stands; empty: a place of its own. Clients name theirs themselves.
    hub_place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must hold, and how soon."""

    # Names of the checkers that must find nothing; see equipoise.lab.simulation.checkers.
    properties: tuple[str, ...] = ("once", "order", "bounded memory", "authorised only", "progress")
    # After healing: the last messages must have been acknowledged and be with every subscriber.
    progress_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One named world. A run of it is this value and a seed."""

    name: str
    summary: str
    workload: Workload
    topology: NetworkShape = NetworkShape()
    faults: tuple[Fault, ...] = ()
    # How long faults go on, in seconds; then everything is healed and progress is demanded.
    duration_s: float = 4.0
    expectation: Expectation = Expectation()
    access: Access | None = None
    # Fields of the hub's limits and of the client's settings, by name, where the world needs other ones.
    hub_limits: Mapping[str, int | float] = field(default_factory=dict)
    client_settings: Mapping[str, int | float] = field(default_factory=dict)
    # Left out when every case is asked for: too large for a thousand seeds.
    is_large: bool = False

    def of(self, seed: int) -> Scenario:
        """The world of a seed: this one, or the one that it is in few of them."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScenario(Scenario):
    """A world of several hubs, whose plan changes and which fail in every way that hubs, links and store can.

    `faults` and `clients` of the base class stay empty here: what happens is counted below, and whom it happens to is
    drawn from the seed.
    """

    topology: NetworkShape = NetworkShape(
        latency_s=(0.000_2, 0.010_2), jitter_s=(-0.01, 0.01), split=(0.0, 0.2)
    )
    duration_s: float = 3.0
    hubs: tuple[str, ...] = ("h1", "h2", "h3")
    # With a store, hubs hold sessions and find each other and the plan by themselves. Without one, plan and live hubs
    # are handed to each hub after a delay of its own, which gives every skew there can be.
    has_store: bool = False
    # With a store: whether the real controller plans beside the operator. It crashes and comes back, or does not hear
    # the store for a while.
    has_controller: bool = False
    # Fields of the planner's settings, by name.
    planner_settings: Mapping[str, float] = field(default_factory=dict)
    controller_crashes: Times = NEVER
    controller_cuts: Times = NEVER
    # Without a store: how late a hub hears of a change, at most.
    lag_s: float = 0.05
    # With a store: how long a hub may be silent, in seconds. One that is overloaded is slow to say that it is alive.
    session_s: float = 1.0
    # Whether smart clients follow redirects.
    is_routing: bool = False
    # The wall clock of a hub is wrong by up to this, another way after each restart.
    clock_error_s: float = 0.0
    # The wall clock of a hub is set forward or back, by up to a minute.
    clock_steps: Times = NEVER
    # Hubs that send each other whole topics only, as those of earlier releases do.
    whole_links: tuple[str, ...] = ()
    # Hubs of a release that keeps no rate limits.
    without_limits: tuple[str, ...] = ()
    # Fields of the hub's cluster settings, by name.
    cluster_settings: Mapping[str, int | float | str] = field(default_factory=dict)
    # Fields of the hub's settings for balancing content topics, by name.
    content_settings: Mapping[str, object] = field(default_factory=dict)
    # By hub, how long its processor takes to write to a client or to another hub; others are infinitely fast.
    write_s: Mapping[str, float] = field(default_factory=dict)
    # Whether these hubs read all that has come on a connection at once, as real ones do: it matters with long backlogs.
    reads_all: bool = False
    # Changes of the plan: a topic gets another home; members get other weights, so that many topics move; a topic gets
    # several homes in one of the modes, or one again.
    moves: Times = NEVER
    ring_changes: Times = NEVER
    replications: Times = NEVER
    modes: tuple[Mode, ...] = (Mode.ALL_PUBLISHERS,)
    # Topics that are content topics from the beginning, on all hubs.
    planted: tuple[str, ...] = ()
    # A topic becomes a content topic, with a tree over some hubs, in this share of the seeds. Drawn apart from all
    # else: other seeds have the world that they had without them.
    tree_changes: Times = NEVER
    tree_share: float = 1.0
    # By pattern, the rate envelope of topics: messages per second, and burst.
    limited: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    # How long a message of a limited topic may wait: so short that some are refused.
    limit_wait_ms: float = 400.0
    # A limited topic is split among several homes in other parts, or not at all.
    share_changes: Times = NEVER
    # Whether changes of shares are drawn apart from all else, so that a seed has the faults it had without them.
    has_shares_apart: bool = False
    # One that is split gets other shares of rate and depth at the homes that it has.
    reshares: Times = NEVER
    # New hubs.
    joins: Times = NEVER
    # Connections between two hubs are reset; nothing passes between them, one way or both, for less than two seconds.
    link_resets: Times = NEVER
    link_cuts: Times = NEVER
    # The same between a client and a hub, or all hubs.
    client_resets: Times = NEVER
    client_cuts: Times = NEVER
    # A hub stands still for less than its peers wait; or for longer, so that it wakes up declared dead.
    pauses: Times = NEVER
    zombies: Times = NEVER
    crashes: Times = NEVER
    stops: Times = NEVER
    # Any two parts, hubs, clients or store, do not hear each other, one way or both, for as long as `cut_s` draws.
    cuts: Times = NEVER
    cut_s: tuple[float, float] = (0.5, 5.0)
    # Other access rules for a while.
    rule_changes: Times = NEVER
    # With a store. A hub is cut off from it for less than a session, or for longer; its connections are reset.
    store_cuts: Times = NEVER
    store_losses: Times = NEVER
    store_resets: Times = NEVER
    # The store is gone for this long for every hub, or cannot be reached, so that sessions expire unseen; 0: never.
    store_outage_s: float = 0.0
    is_store_unreachable: bool = False
    # After the outage, or once in a run without one, the store comes back empty.
    is_store_emptied: bool = False
    # Durable topics: each message of them is kept, and answered once it is.
    durable: tuple[str, ...] = ()
    # In one seed of RARE the world is this one, which takes longer; all others draw what they always drew.
    rare: ClusterScenario | None = None
    # Subscribers by filter that are there in one seed of four; publishers then send messages with attributes. They are
    # drawn apart from all else: other seeds have the world that they had without them, and these the same faults.
    filtered: tuple[Client, ...] = ()
    # Clients that a story starts in the middle of the run.
    comers: tuple[Client, ...] = ()
    # A story played beside all this, by its name in equipoise.lab.simulation.cluster.stories.
    story: str = ""

    def of(self, seed: int) -> ClusterScenario:
        return self if self.rare is None or seed % RARE != RARE // 2 else self.rare
