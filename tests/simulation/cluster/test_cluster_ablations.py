"""What would be missed if it were not there: one part is left out, and the checkers must notice.

`test_worlds` leaves out links that send again, waiting for the words that a hub is owed (its tag as a publisher),
waiting for the old source and for the end of the epoch before (the close, where a topic is heard), and the barrier.
`test_replication` leaves out the tags of lanes and their barrier. Here: positions, at hubs and at clients; the close,
at the hub that is to take over; the tag of a publisher that goes to another hub by itself; and incarnations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from equipoise.client.publishing import Line, Publishing
from equipoise.client.wire.connection import Connection
from equipoise.hub.cluster.handover import Handover
from equipoise.hub.cluster.link.frames import CloseFrame, PreparedFrame
from equipoise.hub.cluster.relay_merge import Merging
from equipoise.hub.cluster.streams import Event, State, Stream
from equipoise.hub.core import HubCore
from equipoise.stream.cursor import IN_ORDER, Cursor, Verdict

from .stories import CROWD, TOPIC, Moment, Wire, speaker, tell
from .worlds import Outcomes, Trouble, World, run

SEEDS = range(40)
PROMISES = {"once", "order", "progress"}
SKEW = Trouble(moves=(1, 8), link_resets=(0, 5), link_cuts=(0, 3), pauses=(0, 2), lag_s=0.3)
LISTENERS = tuple(client for client in CROWD if client.subscribes)

# The worlds.


def _skew(seed: int) -> Outcomes:
    return run(seed, SKEW)


def _routed(seed: int) -> Outcomes:
    """
    1. two publish without a pause, at the home as far as they know it, while all listen at the home too;
    2. the topic moves four times.
    """

    async def story(world: World, wire: Wire) -> None:
        for hub in ("h2", "h3", "h1", "h2"):
            world.move(TOPIC, hub)
            await asyncio.sleep(0.4)

    clients = (speaker("ann", "h1", interval_s=0.005), speaker("bob", "h3", interval_s=0.005), *LISTENERS)
    return tell(seed, story, clients=clients, trouble=Trouble(duration_s=2.5, is_routing=True, lag_s=0.3))[0]


def _unheard(seed: int) -> Outcomes:
    """
    1. what ann sends to the home is held up on its way, and she goes on at another hub;
    2. later it arrives after all.
    """

    async def story(world: World, wire: Wire) -> None:
        world.sim.cut("ann", "h1", one_way=True)
        await asyncio.sleep(3.0)
        world.sim.heal("ann", "h1", one_way=True)

    clients = (speaker("ann", "h1", interval_s=0.01), *LISTENERS)
    return tell(seed, story, clients=clients, trouble=Trouble(duration_s=4.5, is_routing=True))[0]


def _restarted(seed: int) -> Outcomes:
    """
    1. a moves from h1 to h2; h3 has not heard of it, and sends messages to h1, which passes them on to h2;
    2. they are held up between h1 and h2;
    3. h3 crashes, is back under its name before anybody has missed it, and sends to h2 what its publisher says next;
    4. what h1 has passed on arrives.
    """

    async def story(world: World, wire: Wire) -> None:
        is_cut = asyncio.Event()

        def cut() -> None:
            world.sim.cut("h1", "h2")
            is_cut.set()

        world.directory._heard_at["h3"] = world.sim.now + 0.4
        wire.set_trap("h2", Moment.AFTER_HEARING, CloseFrame, cut)
        world.move(TOPIC, "h2")
        await is_cut.wait()
        await asyncio.sleep(0.15)
        world.excuse()
        world.nodes["h3"].crash(silent=False)
        await asyncio.sleep(0.05)
        world.nodes["h3"].start()
        await asyncio.sleep(1.2)
        world.sim.heal("h1", "h2")

    return tell(seed, story, trouble=Trouble(duration_s=2.5, is_gap_allowed=True))[0]


# What is left out.


def _deliver_all(merging: Merging, stream: Stream, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
    topic = stream.topic
    if epoch != topic.epoch:
        topic.epoch, topic.audience = epoch, None
    merging._cluster.core.relay(topic, first, payloads)


def _accept_all(cursor: Cursor, epoch: int, n: int, count: int) -> Verdict:
    cursor.epoch, cursor.next_n = epoch, n + count
    return IN_ORDER


def _open_when_asked(handover: Handover, stream: Stream, peer: str) -> None:
    """Agree to take over, and number at once."""
    handover._cluster.tell(peer, PreparedFrame(stream.topic.name, stream.asked_version))
    if stream.state is State.OPENING:
        handover.happen(stream, Event.CLEAR, None)


def _go_without_settling(publishing: Publishing, line: Line, way: Connection) -> None:
    assert line.link.connection is not None, "there is another way"
    publishing._arrive(line, line.link.connection)


def _go_without_severing(publishing: Publishing, line: Line, way: Connection, connection: Connection) -> None:
    publishing._arrive(line, connection)


class _SameForEver:
    """The incarnation of a hub that has one life only, whatever happens to it."""

    def __get__(self, core: HubCore | None, owner: type) -> int:
        return 1

    def __set__(self, core: HubCore, incarnation: int) -> None:
        pass


def _first_broken(play: Callable[[int], Outcomes]) -> int | None:
    for seed in SEEDS:
        if any(violation.property in PROMISES for violation in play(seed).violations):
            return seed
    return None


@pytest.mark.parametrize(
    ("owner", "name", "ablation", "play"),
    [
        pytest.param(Merging, "_deliver", _deliver_all, _skew, id="without-positions-at-hubs"),
        pytest.param(Cursor, "accept", _accept_all, _routed, id="without-positions-at-clients"),
        pytest.param(Handover, "agree", _open_when_asked, _skew, id="without-the-close-at-the-new-home"),
        pytest.param(
            Publishing, "_settle", _go_without_settling, _routed, id="without-words-from-the-old-home"
        ),
        pytest.param(
            Publishing, "_sever", _go_without_severing, _unheard, id="without-words-from-a-lost-hub"
        ),
        pytest.param(HubCore, "incarnation", _SameForEver(), _restarted, id="without-incarnations"),
    ],
)
def test_the_checkers_notice_what_is_left_out_of_a_move(
    owner: type, name: str, ablation: object, play: Callable[[int], Outcomes]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # An attribute that only instances have is not there to be replaced.
        patch.setattr(owner, name, ablation, raising=name != "incarnation")
        seed = _first_broken(play)
    assert seed is not None, "nothing was noticed"
    assert not play(seed).violations, f"seed {seed} is broken as it is"
