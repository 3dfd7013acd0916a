"""Stories of edges that balance the subscribers of a content topic.

The hubs have processors that differ, all subscribers come to one of them, and the hubs' own balancing does the rest.
One of the two hubs of a session may die in the middle of it, or be an edge no longer; what hubs tell each other may be
lost, late or told twice; two clusters may be joined.
"""

from __future__ import annotations

import asyncio
from functools import partial

from equipoise.content.balancing.detection import is_full
from equipoise.content.balancing.edge_events import EdgePhase
from equipoise.content.balancing.head_table import HeadPhase
from equipoise.content.balancing.messages import ControlMessage, LoadWanted, Pie
from equipoise.hub.content.content_edge import ContentEdge
from equipoise.lab.scenarios import Workload
from equipoise.lab.simulation.cluster.stories import TOPIC, Story, TappedWire
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.cpu import CpuSpec
from equipoise.model import Mode

__all__ = ["SESSION_STORIES", "carried"]

_IN_SESSION = (EdgePhase.ASKING, EdgePhase.SAMPLING, EdgePhase.MIGRATING, EdgePhase.ACCEPTING)
# Longer than any phase of a session may take under the settings of these worlds.
SESSION_S_MAX = 16.0
LOOK_S = 0.02
# Times that hubs which are all full may begin a session, as either of the two.
BEGUN_MAX = 4
# In which an edge answers, however long its backlog is.
ANSWER_S_MAX = 3.0
# Times that publishers may be sent to another head once heads had time to be balanced.
PUBLISHERS_AGAIN_MAX = 4
# With 100 messages a second for nine subscribers each, eight times what the hub can write.
SLOW_WRITE_S = 0.009


def _edges(world: ClusterWorld) -> dict[str, ContentEdge]:
    """By name, the edges that serve."""
    return {
        name: node.cluster.edge
        for name, node in world.hubs.items()
        if node.cluster is not None and node.cluster.edge.balancer is not None
    }


def carried(world: ClusterWorld) -> dict[str, int]:
    """By edge, how many subscriptions it carries that are not on their way to another."""
    found: dict[str, int] = {}
    for name, edge in _edges(world).items():
        topic = edge._cluster.core.index.topics.get(TOPIC.encode())
        content = None if topic is None else topic.content
        found[name] = 0 if content is None else content.subscriptions - content.leaving
    return found


def _phases(world: ClusterWorld) -> list[tuple[str, EdgePhase, str]]:
    """By edge, its phase and the other hub of its session."""
    return [
        (name, edge.balancer.phase, edge.balancer.session[1])
        for name, edge in sorted(_edges(world).items())
        if edge.balancer is not None
    ]


async def _begin(world: ClusterWorld) -> None:
    """All hubs are homes, the first is the head."""
    world.replicate(TOPIC, tuple(sorted(world.hubs)), Mode.CONTENT)
    await world.until(lambda: len(_edges(world)) == len(world.hubs) - 1, 5.0)


async def _deaths(world: ClusterWorld, wire: TappedWire) -> None:
    """Twice, when a hub gets to a phase that is drawn, it dies, or the other one of its session does.

    In some runs no hub dies, but some clients cannot reach the other edges: sessions wait for them in vain.
    """
    await _begin(world)
    draw = world.random.random
    is_cut = draw() < 0.3
    if is_cut:
        world.count("clients cut off")
        for client in world.staging.clients:
            if client.name.endswith(("-1", "-2", "-3", "-4")):
                world.sim.cut(client.name, "h2")
                world.sim.cut(client.name, "h3")
        await asyncio.sleep(4.0)
    for _ in range(0 if is_cut else 2):
        wanted = _IN_SESSION[int(draw() * len(_IN_SESSION))]
        victim = await _in_phase(world, wanted, is_other=draw() < 0.5)
        if victim is None:
            break
        await asyncio.sleep(draw() * 0.3)
        world.count(f"death while {wanted.value}")
        world.hubs[victim].crash(silent=draw() < 0.5)
        await asyncio.sleep(0.1 + draw())
        world.directory.expire(victim)
        await asyncio.sleep(draw() * 0.5)
        world.hubs[victim].start()
    await _come_to_rest(world)


async def _drained(world: ClusterWorld, wire: TappedWire) -> None:
    """When a hub gets to a phase that is drawn, it is an edge no longer, or the other one of its session is not.

    It gives all away; later it is an edge again.
    """
    await _begin(world)
    draw = world.random.random
    wanted = _IN_SESSION[int(draw() * len(_IN_SESSION))]
    victim = await _in_phase(world, wanted, is_other=draw() < 0.5)
    if victim is not None:
        await asyncio.sleep(draw() * 0.3)
        world.count(f"drained while {wanted.value}")
        hubs = sorted(world.hubs)
        world.replicate(TOPIC, tuple(hub for hub in hubs if hub != victim), Mode.CONTENT)
        await asyncio.sleep(4.0)
        left = _smart(world, victim)
        if left:
            world.history.unbalanced.append(f"{victim} is no edge and has {left} subscribers that can move")
        world.replicate(TOPIC, tuple(hubs), Mode.CONTENT)
        await asyncio.sleep(1.0)
    await _come_to_rest(world)


def _smart(world: ClusterWorld, hub: str) -> int:
    """Subscriptions of smart clients by filter at the hub."""
    node = world.hubs[hub].cluster
    topic = None if node is None else node.core.index.topics.get(TOPIC.encode())
    filters = () if topic is None or topic.content is None else topic.content.index
    return sum(
        len(numbers) for each in filters if each.smart is not None for numbers in each.smart.numbers.values()
    )


async def _misheard(world: ClusterWorld, wire: TappedWire) -> None:
    """What hubs tell each other is lost, late or told twice, for a while. Then they share subscribers as ever."""
    await _begin(world)
    for edge in _edges(world).values():
        _mishear(world, edge)
    await asyncio.sleep(world.scenario.duration_s - SESSION_S_MAX - 4.0)
    for edge in _edges(world).values():
        # What was put in front of the class's own.
        del edge.control.send
    await _come_to_rest(world)


def _mishear(world: ClusterWorld, edge: ContentEdge) -> None:
    """Lose one message in five, tell one twice, and one up to two seconds late."""
    said, draw, shell = edge.control.send, world.random.random, edge._cluster.core.shell

    def send(hub: str, message: ControlMessage) -> None:
        drawn = draw()
        world.count("control messages" if drawn >= 0.6 else "control messages misheard")
        if drawn >= 0.2:
            said(hub, message)
        if 0.2 <= drawn < 0.4:
            said(hub, message)
        elif 0.4 <= drawn < 0.6:
            shell.call_later(2.0 * draw(), said, hub, message)

    edge.control.send = send  # type: ignore[method-assign]  # for this world only


async def _begin_clusters(world: ClusterWorld) -> None:
    """h0 numbers and has the edges h2 and h3; h1 follows it and has the edges h4 and h5."""
    world.replicate(TOPIC, tuple(sorted(world.hubs)), Mode.CONTENT, parents=(0, 0, 0, 0, 1, 1))
    await world.until(lambda: len(_edges(world)) == 4, 5.0)


async def _clusters(world: ClusterWorld, wire: TappedWire) -> None:
    """Subscribers that all came to one cluster come to be in the other one, too."""
    await _begin_clusters(world)
    await asyncio.sleep(world.scenario.duration_s - 3.0)
    found = carried(world)
    subscribers = sum(found.values())
    other = found.get("h4", 0) + found.get("h5", 0)
    world.count(f"{other} of {subscribers} in the other cluster")
    if other < 0.15 * subscribers:
        world.history.unbalanced.append(f"{other} of {subscribers} are in the other cluster: {found}")


async def _cluster_deaths(world: ClusterWorld, wire: TappedWire) -> None:
    """Twice, when the heads have come to a phase that is drawn, one of the two or an edge dies."""
    await _begin_clusters(world)
    draw = world.random.random
    for _ in range(2):
        wanted = HeadPhase.JOINED if draw() < 0.7 else HeadPhase.ASKING
        await world.until(partial(_has_head_in, world, wanted), 8.0)
        await asyncio.sleep(draw() * (2.0 if wanted is HeadPhase.JOINED else 0.1))
        victim = sorted(world.hubs)[int(draw() * 2) if draw() < 0.6 else 2 + int(draw() * 4)]
        world.count(f"death of {victim} while {wanted.value}")
        world.hubs[victim].crash(silent=draw() < 0.5)
        await asyncio.sleep(0.1 + draw())
        world.directory.expire(victim)
        await asyncio.sleep(draw() * 0.5)
        world.hubs[victim].start()
    await _come_to_rest(world)


def _has_head_in(world: ClusterWorld, phase: HeadPhase) -> bool:
    nodes = [node.cluster for node in world.hubs.values() if node.cluster is not None]
    return any(node.edge.head.state == phase for node in nodes)


async def _in_phase(world: ClusterWorld, wanted: EdgePhase, *, is_other: bool) -> str | None:
    """Wait until a hub is in the phase; it, or the other hub of its session. None: no hub gets there."""
    for _ in range(int(SESSION_S_MAX / LOOK_S)):
        for name, phase, peer in _phases(world):
            if phase is wanted:
                return peer if is_other and peer in world.hubs else name
        await asyncio.sleep(LOOK_S)
    return None


async def _come_to_rest(world: ClusterWorld) -> None:
    """No session lasts for ever: each hub has been in none at some time from now on."""
    waiting = set(_edges(world))
    for _ in range(int(SESSION_S_MAX / LOOK_S)):
        waiting &= {name for name, phase, _ in _phases(world) if phase in _IN_SESSION}
        if not waiting:
            return
        await asyncio.sleep(LOOK_S)
    world.history.unbalanced.append(f"{', '.join(sorted(waiting))} did not leave the session")


async def _steady(world: ClusterWorld, wire: TappedWire) -> None:
    """Few subscribers are moved more than once."""
    await _begin(world)
    subscribers = sum(carried(world).values())
    await asyncio.sleep(world.scenario.duration_s - 3.0)
    moved = sum(edge.moved for edge in _edges(world).values())
    if moved > 1.15 * subscribers:
        world.history.unbalanced.append(f"{moved} times a subscriber was moved, of {subscribers}")


async def _shares(world: ClusterWorld, wire: TappedWire) -> None:
    """The subscribers, all at one edge, come to be at each as it is strong."""
    await _begin(world)
    subscribers = sum(carried(world).values())
    await asyncio.sleep(world.scenario.duration_s - 3.0)
    found, costs = carried(world), world.scenario.write_s
    moved = sum(edge.moved for edge in _edges(world).values())
    world.count(f"{moved} moved of {subscribers} to {found}")
    whole = sum(1 / cost for cost in costs.values())
    for name, cost in costs.items():
        due = sum(found.values()) / cost / whole
        # Loads may differ by the trigger, which for the weakest edge is half of its share.
        if not 0.25 * due <= found.get(name, 0) <= 1.75 * due:
            world.history.unbalanced.append(f"{name} carries {found.get(name, 0)}, and should {due:.0f}")


async def _comers(world: ClusterWorld, wire: TappedWire) -> None:
    """Subscribers come one by one, to the head and to a hub that is no home: each goes to the edge with most room.

    None stays where it came, and the weakest edge gets far fewer of them than the strongest.
    """
    hubs, draw = ("h0", "h1", "h2", "h3"), world.random.random
    world.replicate(TOPIC, hubs, Mode.CONTENT)
    await world.until(lambda: len(_edges(world)) == len(hubs) - 1, 5.0)
    # Until the edges have measured those that are there.
    await asyncio.sleep(3.0)
    comers = list(Workload(clients=world.scenario.comers).each())
    world.random.shuffle(comers)
    for client in comers:
        world.seat(client, world.random)
        await asyncio.sleep(0.2 * draw())
    await asyncio.sleep(4.0)
    found = carried(world)
    world.count(f"{len(comers)} came: {found}")
    for name in ("h0", "h4"):
        if left := _smart(world, name):
            world.history.unbalanced.append(f"{name} is no edge and has {left} subscribers that can move")
    if 2 * found.get("h1", 0) > found.get("h3", 0):
        world.history.unbalanced.append(f"the weakest edge has more than half of the strongest: {found}")


async def _full(world: ClusterWorld, wire: TappedWire) -> None:
    """Edges that are all overloaded begin next to no sessions: none of them takes subscribers, unless load falls."""
    await _begin(world)
    # Until all know of all.
    await asyncio.sleep(4.0)
    known, begun = _busy(world), 0
    for _ in range(int((world.scenario.duration_s - 6.0) / LOOK_S)):
        busy = _busy(world)
        # In some seeds one is emptied before all know of all: that one may take part.
        begun += len(busy - known) if _is_full(world) else 0
        known = busy
        await asyncio.sleep(LOOK_S)
    if begun >= BEGUN_MAX:
        world.history.unbalanced.append(f"hubs began a session {begun} times, and all edges are full")


def _is_full(world: ClusterWorld) -> bool:
    """Whether all edges are."""
    return all(is_full(edge._measured(), edge._settings) for edge in _edges(world).values())


def _busy(world: ClusterWorld) -> set[str]:
    return {name for name, phase, _ in _phases(world) if phase in (EdgePhase.SAMPLING, EdgePhase.ACCEPTING)}


async def _overloaded(world: ClusterWorld, wire: TappedWire) -> None:
    """An edge has eight times the load that it can serve: it says at once what its load is, to its head and an edge."""
    await _begin(world)
    cpu = world.sim.host("h1").cpu
    assert cpu is not None, "it was given one"
    for asker in ("h0", "h2"):
        # As edges do from the beginning: control links are there before the load is.
        await _answer_s(world, asker, "h1")
    cpu.spec = CpuSpec(written_chunk_s=SLOW_WRITE_S)
    # Until it has a long backlog.
    await asyncio.sleep(8.0)
    waits: list[float] = []
    for asker in ("h0", "h2") * 3:
        waits.append(await _answer_s(world, asker, "h1"))
        if waits[-1] > ANSWER_S_MAX:
            break
    world.count(f"answered within {max(waits):.0f} s")
    if max(waits) > ANSWER_S_MAX:
        world.history.unbalanced.append(
            f"h1 answered within {max(waits):.1f} s, and should in {ANSWER_S_MAX} s"
        )
    # As if it had been replaced: the rest of the run is to end some time.
    cpu.spec = CpuSpec()


async def _answer_s(world: ClusterWorld, asker: str, asked: str) -> float:
    """How long one hub waits for the load of another."""
    cluster = world.hubs[asker].cluster
    assert cluster is not None, "it serves"
    control, answers = cluster.edge.control, list[float]()
    hear = control._handle

    def tap(message: ControlMessage) -> None:
        if isinstance(message, Pie) and message.hub == asked:
            answers.append(world.sim.now)
        hear(message)

    began = world.sim.now
    control._handle = tap
    world.hubs[asker].host.call(control.open)
    world.hubs[asker].host.call(control.send, asked, LoadWanted(hub=asker))
    await world.until(lambda: bool(answers), 4 * ANSWER_S_MAX)
    control._handle = hear
    return (answers or [world.sim.now])[0] - began


async def _publishers(world: ClusterWorld, wire: TappedWire) -> None:
    """Publishers that all came to one head publish at the other, too; in some runs that one then crashes."""
    await _begin_clusters(world)
    await asyncio.sleep(world.scenario.duration_s / 2 - 3.0)
    moved = sum(_moved_publishers(world).values())
    world.count(f"{moved} publishers moved")
    if not moved:
        world.history.unbalanced.append("no publisher was sent to the other head")
    if world.random.random() < 0.5:
        world.count("death of a head with publishers")
        world.hubs["h1"].crash(silent=world.random.random() < 0.5)
        await asyncio.sleep(0.1 + world.random.random())
        world.directory.expire("h1")
        await asyncio.sleep(world.random.random() * 0.5)
        world.hubs["h1"].start()
        return
    await asyncio.sleep(world.scenario.duration_s / 2 - 1.0)
    late = sum(_moved_publishers(world).values()) - moved
    # Heads that are balanced keep their publishers.
    if late > PUBLISHERS_AGAIN_MAX:
        world.history.unbalanced.append(f"{late} times a publisher was sent to another head after {moved}")


def _moved_publishers(world: ClusterWorld) -> dict[str, int]:
    """By head, how many publishers it has sent to another."""
    heads = {name: node.cluster for name, node in world.hubs.items() if node.cluster is not None}
    return {name: cluster.edge.head.publishers.moved for name, cluster in heads.items()}


SESSION_STORIES: dict[str, Story] = {
    "publishers": _publishers,
    "overloaded": _overloaded,
    "deaths": _deaths,
    "steady": _steady,
    "shares": _shares,
    "full": _full,
    "comers": _comers,
    "drained": _drained,
    "misheard": _misheard,
    "clusters": _clusters,
    "cluster-deaths": _cluster_deaths,
}
