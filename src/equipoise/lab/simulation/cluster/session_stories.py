"""Stories of edges that balance the subscribers of a content topic.

The hubs have different processors, all subscribers connect to one hub, and the hubs balance them without a controller.
One of the two hubs of a session may die or stop being an edge during the session. Control messages may be lost, late or
duplicated. Two clusters may balance with each other.
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
# Longer than a session can stay in its phases under the settings of these worlds.
SESSION_S_MAX = 16.0
LOOK_S = 0.02
# Number of times that hubs may enter a session while all of them are full.
BEGUN_MAX = 4
# Time limit for an edge's answer, regardless of its backlog.
ANSWER_S_MAX = 3.0
# Number of publishers that may be redirected twice, or back to the head that they came from.
PUBLISHERS_AGAIN_MAX = 4
# At this cost, 100 messages a second for nine subscribers each are eight times the capacity of the hub.
SLOW_WRITE_S = 0.009


def _edges(world: ClusterWorld) -> dict[str, ContentEdge]:
    """The running edges by name."""
    return {
        name: node.cluster.edge
        for name, node in world.hubs.items()
        if node.cluster is not None and node.cluster.edge.balancer is not None
    }


def carried(world: ClusterWorld) -> dict[str, int]:
    """By edge, the number of its subscriptions that are not moving to another edge."""
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
    """Make all hubs homes, with the first hub as the head."""
    world.replicate(TOPIC, tuple(sorted(world.hubs)), Mode.CONTENT)
    await world.until(lambda: len(_edges(world)) == len(world.hubs) - 1, 5.0)


async def _deaths(world: ClusterWorld, wire: TappedWire) -> None:
    """Twice, a hub dies when it reaches a drawn phase of a session, or the other hub of the session dies.

    In some runs no hub dies, but some clients cannot reach the other edges, so sessions wait for them in vain.
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
    """When a hub reaches a drawn phase of a session, it or the other hub of the session stops being an edge.

    That hub moves all its subscribers away, and later becomes an edge again.
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
            world.history.unbalanced.append(f"{victim} is not an edge but has {left} movable subscribers")
        world.replicate(TOPIC, tuple(hubs), Mode.CONTENT)
        await asyncio.sleep(1.0)
    await _come_to_rest(world)


def _smart(world: ClusterWorld, hub: str) -> int:
    """Number of filter subscriptions of smart clients at the hub."""
    node = world.hubs[hub].cluster
    topic = None if node is None else node.core.index.topics.get(TOPIC.encode())
    filters = () if topic is None or topic.content is None else topic.content.index
    return sum(
        len(numbers) for each in filters if each.smart is not None for numbers in each.smart.numbers.values()
    )


async def _disturbed(world: ClusterWorld, wire: TappedWire) -> None:
    """Control messages of hubs are lost, late or duplicated for a while. Afterwards the edges balance as usual."""
    await _begin(world)
    for edge in _edges(world).values():
        _disturb(world, edge)
    await asyncio.sleep(world.scenario.duration_s - SESSION_S_MAX - 4.0)
    for edge in _edges(world).values():
        # Removes the instance attribute, which hides the method.
        del edge.control.send
    await _come_to_rest(world)


def _disturb(world: ClusterWorld, edge: ContentEdge) -> None:
    """Of five messages lose one, duplicate one at once, and duplicate one up to two seconds later."""
    original, draw, shell = edge.control.send, world.random.random, edge._cluster.core.shell

    def send(hub: str, message: ControlMessage) -> None:
        drawn = draw()
        world.count("control messages" if drawn >= 0.6 else "control messages misheard")
        if drawn >= 0.2:
            original(hub, message)
        if 0.2 <= drawn < 0.4:
            original(hub, message)
        elif 0.4 <= drawn < 0.6:
            shell.call_later(2.0 * draw(), original, hub, message)

    edge.control.send = send  # type: ignore[method-assign]  # for this world only


async def _begin_clusters(world: ClusterWorld) -> None:
    """h0 numbers messages and has the edges h2 and h3; h1 follows h0 and has the edges h4 and h5."""
    world.replicate(TOPIC, tuple(sorted(world.hubs)), Mode.CONTENT, parents=(0, 0, 0, 0, 1, 1))
    await world.until(lambda: len(_edges(world)) == 4, 5.0)


async def _clusters(world: ClusterWorld, wire: TappedWire) -> None:
    """All subscribers connect to one cluster; some of them move to the other cluster."""
    await _begin_clusters(world)
    await asyncio.sleep(world.scenario.duration_s - 3.0)
    found = carried(world)
    subscribers = sum(found.values())
    other = found.get("h4", 0) + found.get("h5", 0)
    world.count(f"{other} of {subscribers} in the other cluster")
    if other < 0.15 * subscribers:
        world.history.unbalanced.append(f"{other} of {subscribers} are in the other cluster: {found}")


async def _cluster_deaths(world: ClusterWorld, wire: TappedWire) -> None:
    """Twice, a head or an edge dies when a head reaches a drawn phase."""
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
    """Wait until a hub is in the phase. Returns that hub or the other hub of its session; None on timeout."""
    for _ in range(int(SESSION_S_MAX / LOOK_S)):
        for name, phase, peer in _phases(world):
            if phase is wanted:
                return peer if is_other and peer in world.hubs else name
        await asyncio.sleep(LOOK_S)
    return None


async def _come_to_rest(world: ClusterWorld) -> None:
    """Check that every session ends: each hub is outside of a session at some time from now on."""
    waiting = set(_edges(world))
    for _ in range(int(SESSION_S_MAX / LOOK_S)):
        waiting &= {name for name, phase, _ in _phases(world) if phase in _IN_SESSION}
        if not waiting:
            return
        await asyncio.sleep(LOOK_S)
    world.history.unbalanced.append(f"{', '.join(sorted(waiting))} did not leave the session")


async def _steady(world: ClusterWorld, wire: TappedWire) -> None:
    """Edges move few subscribers more than once."""
    await _begin(world)
    subscribers = sum(carried(world).values())
    await asyncio.sleep(world.scenario.duration_s - 3.0)
    moved = sum(edge.moved for edge in _edges(world).values())
    if moved > 1.15 * subscribers:
        world.history.unbalanced.append(f"edges made {moved} moves for {subscribers} subscribers")


async def _shares(world: ClusterWorld, wire: TappedWire) -> None:
    """The subscribers all start at one edge and end up spread by the capacity of the edges."""
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
            world.history.unbalanced.append(
                f"{name} has {found.get(name, 0)} subscribers, expected {due:.0f}"
            )


async def _comers(world: ClusterWorld, wire: TappedWire) -> None:
    """Subscribers connect one by one to the head and to a hub that is not a home. Each goes to the edge with most room.

    None stays at the hub it connected to, and the weakest edge gets less than half as many as the strongest.
    """
    hubs, draw = ("h0", "h1", "h2", "h3"), world.random.random
    world.replicate(TOPIC, hubs, Mode.CONTENT)
    await world.until(lambda: len(_edges(world)) == len(hubs) - 1, 5.0)
    # Until the edges have measured the load of the present subscribers.
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
            world.history.unbalanced.append(f"{name} is not an edge but has {left} movable subscribers")
    if 2 * found.get("h1", 0) > found.get("h3", 0):
        world.history.unbalanced.append(f"the weakest edge has more than half of the strongest: {found}")


async def _full(world: ClusterWorld, wire: TappedWire) -> None:
    """Edges that are all overloaded start almost no sessions: none accepts subscribers unless its load falls."""
    await _begin(world)
    # Until every edge knows the load of every other edge.
    await asyncio.sleep(4.0)
    known, begun = _busy(world), 0
    for _ in range(int((world.scenario.duration_s - 6.0) / LOOK_S)):
        busy = _busy(world)
        # In some seeds an edge loses its subscribers before that and may take part in sessions.
        begun += len(busy - known) if _is_full(world) else 0
        known = busy
        await asyncio.sleep(LOOK_S)
    if begun >= BEGUN_MAX:
        world.history.unbalanced.append(f"hubs entered a session {begun} times while all edges were full")


def _is_full(world: ClusterWorld) -> bool:
    """Whether all edges are full."""
    return all(is_full(edge._measured(), edge._settings) for edge in _edges(world).values())


def _busy(world: ClusterWorld) -> set[str]:
    return {name for name, phase, _ in _phases(world) if phase in (EdgePhase.SAMPLING, EdgePhase.ACCEPTING)}


async def _overloaded(world: ClusterWorld, wire: TappedWire) -> None:
    """An edge with eight times the load that it can serve still answers load requests of its head and of an edge."""
    await _begin(world)
    cpu = world.sim.host("h1").cpu
    assert cpu is not None, "the scenario gives h1 a processor"
    for asker in ("h0", "h2"):
        # Opens the control links before the overload, as edges do.
        await _answer_s(world, asker, "h1")
    cpu.spec = CpuSpec(written_chunk_s=SLOW_WRITE_S)
    # Until h1 has a long backlog.
    await asyncio.sleep(8.0)
    waits: list[float] = []
    for asker in ("h0", "h2") * 3:
        waits.append(await _answer_s(world, asker, "h1"))
        if waits[-1] > ANSWER_S_MAX:
            break
    world.count(f"answered within {max(waits):.0f} s")
    if max(waits) > ANSWER_S_MAX:
        world.history.unbalanced.append(
            f"h1 answered within {max(waits):.1f} s, the limit is {ANSWER_S_MAX} s"
        )
    # A fast processor again, so that the run can end.
    cpu.spec = CpuSpec()


async def _answer_s(world: ClusterWorld, asker: str, asked: str) -> float:
    """Time until one hub receives the load of another."""
    cluster = world.hubs[asker].cluster
    assert cluster is not None, "the hub is running"
    control, answers = cluster.edge.control, list[float]()
    handle = control._handle

    def tap(message: ControlMessage) -> None:
        if isinstance(message, Pie) and message.hub == asked:
            answers.append(world.sim.now)
        handle(message)

    began = world.sim.now
    control._handle = tap
    world.hubs[asker].host.call(control.open)
    world.hubs[asker].host.call(control.send, asked, LoadWanted(hub=asker))
    await world.until(lambda: bool(answers), 4 * ANSWER_S_MAX)
    control._handle = handle
    return (answers or [world.sim.now])[0] - began


async def _publishers(world: ClusterWorld, wire: TappedWire) -> None:
    """All publishers connect to one head, which redirects some to the other; in some runs the other then crashes."""
    await _begin_clusters(world)
    await asyncio.sleep(world.scenario.duration_s / 2 - 3.0)
    moved = sum(_moved_publishers(world).values())
    world.count(f"{moved} publishers moved")
    if not moved:
        world.history.unbalanced.append("the head redirected no publisher to the other head")
    if world.random.random() < 0.5:
        world.count("death of a head with publishers")
        world.hubs["h1"].crash(silent=world.random.random() < 0.5)
        await asyncio.sleep(0.1 + world.random.random())
        world.directory.expire("h1")
        await asyncio.sleep(world.random.random() * 0.5)
        world.hubs["h1"].start()
        return
    await asyncio.sleep(world.scenario.duration_s / 2 - 1.0)
    # A head that numbers messages may stay the busier one without publishers, and then redirects all of them, once.
    by_head = _moved_publishers(world)
    publishers = sum(client.publishes != () for client in world.scenario.workload.each())
    again = by_head["h1"] + max(0, by_head["h0"] - publishers)
    if again > PUBLISHERS_AGAIN_MAX:
        world.history.unbalanced.append(
            f"heads redirected {publishers} publishers {again} times too often: {by_head}"
        )


def _moved_publishers(world: ClusterWorld) -> dict[str, int]:
    """By head, the number of publishers it has redirected."""
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
    "misheard": _disturbed,
    "clusters": _clusters,
    "cluster-deaths": _cluster_deaths,
}
