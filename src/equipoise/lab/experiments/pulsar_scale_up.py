"""Five hubs join five, with ten thousand topics: time until the new hubs carry their part.

Pulsar's documentation of its balancer adds five brokers to five and finds load balanced five minutes later. Here every
topic has a client that publishes and subscribes to it; after a while five new hubs start, without any command. The
experiment measures the bytes that each hub really sends each second, not views or plans.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from equipoise.client.url import Endpoint
from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.experiments.experiment import Experiment, Progress, no_loss
from equipoise.lab.experiments.meter import Meter
from equipoise.lab.experiments.result import Claim, Figure, Line, Marks, Panel, Size
from equipoise.lab.experiments.run_game import server_names
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cpu import measured_cpu
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.legs import CLOUD, Legs
from equipoise.lab.simulation.light_client.client import LightClient
from equipoise.plan import PlannerSettings
from equipoise.plan.planner import Planner

__all__ = ["SCALE_UP", "Growth", "TalkingCrowd", "grow"]

HUBS_BEFORE, HUBS_AFTER = 5, 10
# Rates of 10,000 topics are log-normal: most topics are slow and a few are fast.
RATE_SIGMA = 1.0
MESSAGES_PER_TOPIC_S = 0.5
# A telemetry record of a topic takes some 400 bytes of a hub's bandwidth each second: with small messages at this rate,
# telemetry would be half of the load.
PAYLOAD_BYTES = 2_000
# Approximate load of the first five hubs.
RATIO_BEFORE = 0.45
WIRE_BYTES = PAYLOAD_BYTES + 60
BEFORE_S, AFTER_S = 30, 45
# Balanced: all hubs are and stay within this distance from the mean, averaged over these seconds.
TOLERANCE = 0.20
SMOOTHING_S = 3
STAYS_S = 5
GOAL_S = 15.0


@dataclass(frozen=True, slots=True)
class TalkingCrowd:
    topics: int
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The outcome: bytes that each hub sent in each second, and the time at which the new hubs had joined."""

    crowd: TalkingCrowd
    sent: list[dict[str, float]] = field(default_factory=list)
    joined_at_s: float
    plans_at_s: tuple[float, ...]
    lost: int
    deliveries: int

    def imbalance(self, second: int) -> float:
        """The largest distance of a hub from the mean over the last seconds; 1: it is idle, or at twice the mean."""
        window = self.sent[max(0, second + 1 - SMOOTHING_S) : second + 1]
        names = window[-1].keys()
        loads = [sum(row.get(name, 0.0) for row in window) for name in names]
        mean = sum(loads) / len(loads)
        return max(abs(load / mean - 1) for load in loads) if mean else 0.0

    @property
    def balanced_after_s(self) -> float | None:
        """Time from the join of the last hub until all stay near the mean; None: they never do."""
        joined = int(self.joined_at_s)
        good = [self.imbalance(second) <= TOLERANCE for second in range(len(self.sent))]
        for second in range(joined, len(good) - STAYS_S):
            if all(good[second : second + STAYS_S]):
                return second + 1 - self.joined_at_s
        return None


class Talker:
    """One client with its own topics: it publishes to each at its rate, and subscribes to all."""

    def __init__(self, host: Host, topics: dict[bytes, float], meter: Meter) -> None:
        self.host = host
        self._topics = topics
        self._meter = meter
        self._timers: dict[bytes, asyncio.TimerHandle] = {}

    def start(self, entries: list[Endpoint]) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = LightClient(entries, self._meter, lambda topic, payload: None, self.host.random)
        for topic, rate in self._topics.items():
            self._loop.call_later(self.host.random.random() * 5.0, self._begin, topic, rate)

    def _begin(self, topic: bytes, rate: float) -> None:
        self._talk(topic, rate)
        self._client.subscribe(topic)

    def _talk(self, topic: bytes, rate: float) -> None:
        self._client.publish(topic, bytes(PAYLOAD_BYTES))
        self._timers[topic] = self._loop.call_later(1.0 / rate, self._talk, topic, rate)

    def fall_silent(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


def grow(crowd: TalkingCrowd, seed: int, progress: Progress) -> Growth:
    """Run the experiment in a new simulation."""
    with Simulation(seed=seed, topology=Legs(seed=seed), steps_max=10**11) as sim:
        return sim.run(_grow(sim, crowd, progress))


async def _grow(sim: Simulation, crowd: TalkingCrowd, progress: Progress) -> Growth:
    topics, clients = crowd.topics, crowd.clients
    meter, names = Meter(), server_names(HUBS_AFTER)
    full = topics * MESSAGES_PER_TOPIC_S * WIRE_BYTES / HUBS_BEFORE / RATIO_BEFORE
    hubs = dict.fromkeys(names[:HUBS_BEFORE], CLOUD)
    region = CloudRegion(sim, Command(hubs=hubs, cloud=CLOUD, out_bytes_per_s=full, cpu=measured_cpu()))
    await region.begin()
    talkers = [
        Talker(sim.host(f"client-{number}"), share, meter)
        for number, share in enumerate(_shares(topics, clients, sim.random))
    ]
    for talker in talkers:
        talker.host.spawn(_call(talker.start, region.endpoints), name="talk")
    # The planner neither requests nor releases servers.
    policy = Planner(PlannerSettings(servers_max=HUBS_BEFORE, server_hour_price=0.0))
    controlling = region.control(policy)
    meter.began_at = sim.now
    watch = _Watch(region)
    joined_at_s = 0.0
    for second in range(BEFORE_S + AFTER_S):
        if second == BEFORE_S:
            await region.start(*names[HUBS_BEFORE:])
            joined_at_s = sim.now - meter.began_at
        await asyncio.sleep(meter.began_at + second + 1 - sim.now)
        watch.look()
        progress(f"{second + 1} s, {len(region.members)} hubs", (second + 1) / (BEFORE_S + AFTER_S))
    for talker in talkers:
        talker.host.spawn(_call(talker.fall_silent), name="hush")
    await asyncio.sleep(3.0)
    controlling.cancel()
    await asyncio.wait([controlling])
    return Growth(
        crowd=crowd,
        sent=watch.sent,
        joined_at_s=joined_at_s,
        plans_at_s=tuple(at - meter.began_at for at, _ in region.moves if at > meter.began_at),
        lost=meter.lost,
        deliveries=meter.deliveries,
    )


class _Watch:
    """Observes the bytes that each hub has sent to clients."""

    def __init__(self, region: CloudRegion) -> None:
        self._region = region
        self._before: dict[str, int] = {}
        self.sent: list[dict[str, float]] = []

    def look(self) -> None:
        row: dict[str, float] = {}
        for name in self._region.running:
            hub = self._region.hubs[name].hub
            if hub is None:
                continue
            *_, totals = hub.core.index.totals()
            row[name] = float(totals.bytes_out - self._before.get(name, 0))
            self._before[name] = totals.bytes_out
        self.sent.append(row)


def _shares(topics: int, clients: int, rng: Random) -> list[dict[bytes, float]]:
    """Each client's topics with their rates."""
    mean = MESSAGES_PER_TOPIC_S / 2.718281828 ** (RATE_SIGMA**2 / 2)
    shares: list[dict[bytes, float]] = [{} for _ in range(clients)]
    for number in range(topics):
        rate = max(0.05, min(10.0, mean * rng.lognormvariate(0.0, RATE_SIGMA)))
        shares[number % clients][b"topic/%d" % number] = rate
    return shares


async def _call(function: object, *args: object) -> None:
    assert callable(function)
    function(*args)


def _claims(growth: Growth) -> tuple[Claim, ...]:
    after_s = growth.balanced_after_s
    return (
        Claim(
            claim=f"5 hubs join 5 with {growth.crowd.topics:,} topics: all within {100 * TOLERANCE:.0f} % of the mean",
            paper=f"after 5 minutes (Pulsar's documentation); within {GOAL_S:.0f} s asked",
            ours="never" if after_s is None else f"after {after_s:.0f} s",
            holds=after_s is not None and after_s <= GOAL_S,
            value=after_s,
            at_most=GOAL_S,
        ),
        no_loss(growth.lost, growth.deliveries, paper="not said"),
    )


def _parameters(growth: Growth) -> tuple[tuple[str, str], ...]:
    topics, clients = growth.crowd.topics, growth.crowd.clients
    return (
        ("topics", f"{topics:,}, one client each to publish and hear it, {clients} clients"),
        (
            "rates",
            f"log-normal, σ {RATE_SIGMA:g}, {MESSAGES_PER_TOPIC_S:g}/s on average, {PAYLOAD_BYTES} B",
        ),
        ("load", f"the first five hubs are {RATIO_BEFORE:g} full by outgoing bandwidth"),
        ("control", "a look every second, a round every five or when hubs come; all defaults"),
    )


def _notes(growth: Growth) -> tuple[str, ...]:
    return (
        "Load is what hubs really send to clients, over three seconds; time counts from the moment that all new "
        "hubs are alive.",
    )


def _figure(growth: Growth) -> Figure:
    x = tuple(float(second + 1) for second in range(len(growth.sent)))
    mega = [[value / 1e3 for value in row.values()] for row in growth.sent]
    return Figure(
        name="pulsar-scale-up",
        title="Five hubs join five",
        x_label="time, s",
        panels=(
            Panel(
                title="sent by the busiest hub, the average one and the idlest",
                y_label="kB/s",
                lines=(
                    Line(label="busiest", x=x, y=tuple(max(row) for row in mega)),
                    Line(label="mean", x=x, y=tuple(sum(row) / len(row) for row in mega)),
                    Line(label="idlest", x=x, y=tuple(min(row) for row in mega)),
                ),
                marks=(
                    Marks(label="hubs alive", x=(growth.joined_at_s,)),
                    Marks(label="plans", x=growth.plans_at_s),
                ),
            ),
        ),
    )


SCALE_UP = Experiment(
    name="pulsar-scale-up",
    source="Pulsar's documentation of its load balancer",
    summary="Five hubs join five with 10,000 topics; how soon load is where the new hubs are.",
    worlds={Size.FULL: TalkingCrowd(10_000, 200), Size.QUICK: TalkingCrowd(2_000, 40)},
    world=grow,
    claims=_claims,
    figures=(_figure,),
    parameters=_parameters,
    notes=_notes,
    takes=("0.5 minutes", "3 minutes"),
)
