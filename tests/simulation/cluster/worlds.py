"""Run one seed of a case and check its properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from equipoise.lab.scenarios import Client, ClusterScenario, Workload, scenario_by_name
from equipoise.lab.scenarios.cluster_clients import STORY_CROWD
from equipoise.lab.scenarios.excused import is_excused
from equipoise.lab.scenarios.scenario import NetworkShape
from equipoise.lab.simulation.checkers import Violation
from equipoise.lab.simulation.cluster.stories import Story, TappedWire, begin_story, tapped
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.runner import run_seed
from equipoise.lab.simulation.topology import Topology
from equipoise.lab.workload import History

# The first few say what is wrong; hundreds follow from them.
SHOWN_MAX = 5
# A run in which less was said has tried nothing.
MESSAGES_MIN = 30


def case(name: str, **changes: object) -> ClusterScenario:
    """A case of `equipoise simulate`, or one that differs in these fields."""
    found = scenario_by_name(name)
    assert isinstance(found, ClusterScenario)
    return replace(found, **changes)  # type: ignore[arg-type]  # fields by name


CALM = case("cluster-calm")
STORY = replace(
    CALM, workload=STORY_CROWD, topology=NetworkShape(shape="long-way", split=(0.0, 0.2)), duration_s=1.5
)


@dataclass
class Outcomes:
    """What became of one run."""

    violations: tuple[Violation, ...]
    world: ClusterWorld
    fired: dict[str, int]
    hash: str

    @property
    def history(self) -> History:
        return self.world.history


def run(
    seed: int,
    scenario: ClusterScenario,
    *,
    clients: tuple[Client, ...] | None = None,
    prepare: Callable[[ClusterWorld], None] = lambda world: None,
    topology: Topology | None = None,
) -> Outcomes:
    worlds: list[ClusterWorld] = []

    def keep(world: ClusterWorld) -> None:
        worlds.append(world)
        prepare(world)

    if clients is not None:
        scenario = replace(scenario, workload=Workload(clients=clients))
    done = run_seed(scenario, seed, prepare=keep, topology=topology)
    return Outcomes(done.violations, worlds[0], dict(done.faults), done.trace_hash)


def tell(
    seed: int,
    story: Story,
    *,
    scenario: ClusterScenario = STORY,
    clients: tuple[Client, ...] | None = None,
    home: str = "h1",
) -> tuple[Outcomes, TappedWire]:
    """Play one seed: the topic lives at `home`, clients talk, and a moment later the story begins."""
    with tapped() as wire:
        told = run(
            seed, scenario, clients=clients, prepare=lambda world: begin_story(world, wire, story, home=home)
        )
    return told, wire


def check_promises(outcomes: Outcomes, seed: int, *, messages_min: int = MESSAGES_MIN) -> None:
    shown = [str(violation) for violation in outcomes.violations[:SHOWN_MAX]]
    assert not shown, f"seed {seed}: {shown}"
    assert outcomes.history.messages > messages_min, f"seed {seed}: too little happened"


def check_seeds(name: str, seeds: range, *, messages_min: int = MESSAGES_MIN) -> None:
    """All of these seeds of a case keep their promises, but for those that are listed."""
    scenario = case(name)
    for seed in seeds:
        if not is_excused(name, seed):
            check_promises(run(seed, scenario), seed, messages_min=messages_min)
