"""A scenario: topology, workload, faults, duration, expectation.

A scenario is a value. Simulation, benchmarks, demo and experiments read the same scenarios. Fields that a scenario
does not need keep their defaults. A `Scenario` has one hub, a `ClusterScenario` several.
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

# How often a fault or change happens in one run: drawn between the two numbers, both included.
Times: TypeAlias = tuple[int, int]
NEVER: Times = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkShape:
    """The network between the machines. One value per run is drawn from each range. Values below zero count as zero,
    so a range that begins below zero leaves the fault out of some runs."""

    # `lan`, `star`, `sites` or `cities`, as in equipoise.lab.simulation.topology; among several hubs also `uneven`
    # (latencies between hubs differ up to a hundredfold), `scattered` (latencies of clients differ too) and `long-way`.
    shape: str = "lan"
    latency_s: tuple[float, float] = (0.000_2, 0.000_2)
    jitter_s: tuple[float, float] = (0.0, 0.0)
    # The chance that a packet is lost, which shows as delay.
    loss: tuple[float, float] = (0.0, 0.0)
    # Kernel buffers of both ends of one connection: small, so that a slow reader soon blocks the writer.
    window_bytes: int = 256 * 1024
    # The chance that received data arrives in two pieces.
    split: tuple[float, float] = (0.0, 0.0)
    # Between sites: (one, other, seconds).
    round_trips_s: tuple[tuple[str, str, float], ...] = ()
    # Site of the hub; empty: a site of its own. The site of a client is in `Client`.
    hub_place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The properties that must hold, and the time limit for progress."""

    # Names of the checkers that must find no violation; see equipoise.lab.simulation.checkers.
    properties: tuple[str, ...] = ("once", "order", "bounded memory", "authorised only", "progress")
    # Time after healing within which the last messages are acknowledged and reach every subscriber.
    progress_s: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One named world. A run of it is this value and a seed."""

    name: str
    summary: str
    workload: Workload
    topology: NetworkShape = NetworkShape()
    faults: tuple[Fault, ...] = ()
    # Faults happen for this long. Then the world is healed and progress is checked.
    duration_s: float = 4.0
    expectation: Expectation = Expectation()
    access: Access | None = None
    # Fields of the hub's limits and of the client's settings, by name, that differ from their defaults.
    hub_limits: Mapping[str, int | float] = field(default_factory=dict)
    client_settings: Mapping[str, int | float] = field(default_factory=dict)
    # Too large for a thousand seeds, so not part of the default cases.
    is_large: bool = False

    def of(self, seed: int) -> Scenario:
        """The world of a seed: this scenario, or its rare variant."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScenario(Scenario):
    """A world of several hubs with plan changes and with faults of hubs, links and store.

    `faults` of the base class stays empty. The fields below state how often each fault happens; the seed
    determines when and where.
    """

    topology: NetworkShape = NetworkShape(
        latency_s=(0.000_2, 0.010_2), jitter_s=(-0.01, 0.01), split=(0.0, 0.2)
    )
    duration_s: float = 3.0
    hubs: tuple[str, ...] = ("h1", "h2", "h3")
    # With a store, hubs hold sessions and read the live hubs and the plan from the store. Without one, each hub
    # receives the plan and the live hubs after a delay of its own, which produces every possible skew.
    has_store: bool = False
    # With a store: whether the real controller plans beside the operator. It crashes and restarts, or is cut off from
    # the store for a while.
    has_controller: bool = False
    # Fields of the planner's settings, by name.
    planner_settings: Mapping[str, float] = field(default_factory=dict)
    controller_crashes: Times = NEVER
    controller_cuts: Times = NEVER
    # Without a store: the longest delay until a hub receives a change.
    lag_s: float = 0.05
    # With a store: session timeout of hubs. An overloaded hub is slow to renew its session.
    session_s: float = 1.0
    # Whether smart clients follow redirects.
    is_routing: bool = False
    # Largest error of a hub's wall clock, drawn anew at each restart.
    clock_error_s: float = 0.0
    # The wall clock of a hub is set forward or back, by up to a minute.
    clock_steps: Times = NEVER
    # Hubs that send other hubs whole topics only, as hubs of earlier releases do.
    whole_links: tuple[str, ...] = ()
    # Hubs of a release without rate limits.
    without_limits: tuple[str, ...] = ()
    # Fields of the hub's cluster settings, by name.
    cluster_settings: Mapping[str, int | float | str] = field(default_factory=dict)
    # Fields of the hub's settings for balancing content topics, by name.
    content_settings: Mapping[str, object] = field(default_factory=dict)
    # By hub, processor time of one write to a client or to another hub. The other hubs take no time.
    write_s: Mapping[str, float] = field(default_factory=dict)
    # Whether these hubs read all received data of a connection at once, as real hubs do: it matters for long backlogs.
    reads_all: bool = False
    # Changes of the plan: a topic gets another home; members get other weights, so that many topics move; a topic gets
    # several homes in one of the modes, or one home again.
    moves: Times = NEVER
    ring_changes: Times = NEVER
    replications: Times = NEVER
    modes: tuple[Mode, ...] = (Mode.ALL_PUBLISHERS,)
    # Topics that are content topics from the beginning, on all hubs.
    planted: tuple[str, ...] = ()
    # A topic becomes a content topic with a tree over some hubs, in this share of the seeds. A separate generator draws
    # these changes, so the other seeds keep their worlds.
    tree_changes: Times = NEVER
    tree_share: float = 1.0
    # By pattern, the rate envelope of topics: messages per second, and burst.
    limited: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    # Longest wait of a message of a limited topic: short, so that hubs reject some messages.
    limit_wait_ms: float = 400.0
    # Limited topics to which plain clients also add entries with XADD; the hubs of such a world have logs.
    adds: tuple[str, ...] = ()
    # A limited topic is split among several homes with new shares, or gets one home again.
    share_changes: Times = NEVER
    # Whether a separate generator draws the share changes, so that a seed keeps its other faults.
    has_shares_apart: bool = False
    # A split topic gets new shares of rate and depth at its current homes.
    reshares: Times = NEVER
    # New hubs.
    joins: Times = NEVER
    # Connections between two hubs are reset; or their link is cut, one way or both, for less than two seconds.
    link_resets: Times = NEVER
    link_cuts: Times = NEVER
    # The same between a client and one hub, or all hubs.
    client_resets: Times = NEVER
    client_cuts: Times = NEVER
    # A hub pauses for less than its peers' timeout; or for longer, so that its peers declare it dead.
    pauses: Times = NEVER
    zombies: Times = NEVER
    crashes: Times = NEVER
    stops: Times = NEVER
    # The link between any two of hubs, clients and store is cut, one way or both, for a time drawn from `cut_s`.
    cuts: Times = NEVER
    cut_s: tuple[float, float] = (0.5, 5.0)
    # Different access rules for a while.
    rule_changes: Times = NEVER
    # With a store. A hub is cut off from it for less than its session timeout, or for longer; its connections to the
    # store are reset.
    store_cuts: Times = NEVER
    store_losses: Times = NEVER
    store_resets: Times = NEVER
    # For this long the store is down, or unreachable for every hub, so that sessions expire unnoticed; 0: never.
    store_outage_s: float = 0.0
    is_store_unreachable: bool = False
    # After the outage, or once in a run without one, the store loses its data.
    is_store_emptied: bool = False
    # Durable topics: their messages are in a log before the hub answers.
    durable: tuple[str, ...] = ()
    # The world of one seed in RARE, which takes longer to run. The other seeds run this scenario.
    rare: ClusterScenario | None = None
    # Filter subscribers that connect in one seed of four; publishers then send messages with attributes. A separate
    # generator draws these seeds, so the other seeds keep their worlds and these seeds keep their faults.
    filtered: tuple[Client, ...] = ()
    # Clients that a story starts in the middle of the run.
    comers: tuple[Client, ...] = ()
    # Story that runs beside the faults, by its name in equipoise.lab.simulation.cluster.stories.
    story: str = ""

    def of(self, seed: int) -> ClusterScenario:
        return self if self.rare is None or seed % RARE != RARE // 2 else self.rare
