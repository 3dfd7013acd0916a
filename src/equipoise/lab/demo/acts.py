"""The acts of the demo as data: actions, durations and conditions. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from equipoise.lab.scenarios.game import Game

__all__ = [
    "EAST",
    "FAVOURITE",
    "GAME",
    "HUB_BYTES_PER_S",
    "MOVES_ONLY",
    "SHORT",
    "SITES",
    "STORY",
    "WEST",
    "Act",
    "Until",
]

# Nine tiles, so that three dozen players make a world that is neither empty nor full.
GAME = Game(tiles_per_side=3, payload_bytes=1_000, updates_per_s=3.0)
# The middle of the map.
FAVOURITE = (GAME.side_length / 2, GAME.side_length / 2)
# Small hubs, so that few players fill them on one machine: three carry two dozen who walk at a quarter of their load,
# and fifteen on one tile take two of them for that tile alone.
HUB_BYTES_PER_S = 400_000
# Where hubs stand, in turn.
WEST, EAST = SITES = ("west", "east")


class Until(Enum):
    """What an act waits for beside its time; the words are shown if the wait was in vain."""

    NOTHING = "nothing"
    # Spark has started.
    SEEN = "the controller sees the load"
    # A hub was added, and the favourite tile has several homes.
    GROWN = "a hub is added, and the tile is spread over several"
    # There are no more hubs than in the beginning.
    SHRUNK = "the hubs that were added are released"
    # The swarm has a topic that is near it.
    SETTLED = "the topic is near the swarm"
    # The swarm has crossed, and its topic is near it again.
    FOLLOWED = "the topic has followed the swarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One part of the story."""

    title: str
    words: str
    # How many players there are in the end, and how long they take to come or go.
    players: int
    ramp_s: float = 1.0
    # How many of ten go to the favourite tile.
    crowd_of_ten: int = 0
    # Whether the favourite tile is moved from hub to hub all the time, by hand.
    is_moving: bool = False
    # The site at which the swarm flies; empty: there is none.
    swarm_at: str = ""
    seconds_min: float
    seconds_max: float
    until: Until = Until.NOTHING


_MOVING = Act(
    title="A busy topic moves",
    words="Three hubs, eight players. The tile that most of them stand on is moved from hub to hub, again and again. "
    "No client notices. Spark is starting meanwhile.",
    players=8,
    crowd_of_ten=7,
    is_moving=True,
    seconds_min=10.0,
    seconds_max=75.0,
    until=Until.SEEN,
)
_JOINING = Act(
    title="Players join",
    words="Two dozen players walk over the map. Each hears the players on the same tile.",
    players=24,
    ramp_s=10.0,
    seconds_min=16.0,
    seconds_max=16.0,
)
_CROWDING = Act(
    title="One tile becomes the crowd's favourite",
    words="Half of them go to the middle. No hub alone can carry that tile: hubs are added, and the topic is spread "
    "over several of them.",
    players=30,
    ramp_s=6.0,
    crowd_of_ten=5,
    seconds_min=20.0,
    seconds_max=40.0,
    until=Until.GROWN,
)
_LEAVING = Act(
    title="Players leave",
    words="The crowd goes home.",
    players=6,
    ramp_s=6.0,
    seconds_min=8.0,
    seconds_max=8.0,
)
_FLYING = Act(
    title="A swarm takes off in the west",
    words="Four drones talk over one topic with a limit of 40 ms. East and west are 30 ms apart, one way, through "
    "relays that really delay; the topic goes where the swarm is.",
    players=6,
    swarm_at=WEST,
    seconds_min=6.0,
    seconds_max=25.0,
    until=Until.SETTLED,
)
_CROSSING = Act(
    title="The swarm crosses to the east",
    words="Its topic is still in the west: every update goes there and back, and the limit is broken. The drones tell "
    "through which gateway they come, and the topic follows them.",
    players=6,
    swarm_at=EAST,
    seconds_min=8.0,
    seconds_max=30.0,
    until=Until.FOLLOWED,
)
_RELEASING = Act(
    title="Hubs are released",
    words="What is left fits on fewer hubs: one after the other is emptied and stopped.",
    players=6,
    swarm_at=EAST,
    seconds_min=3.0,
    seconds_max=45.0,
    until=Until.SHRUNK,
)

STORY = (_MOVING, _JOINING, _CROWDING, _LEAVING, _FLYING, _CROSSING, _RELEASING)
# The same, as far as a test has time for it.
SHORT = (
    Act(
        title=_MOVING.title,
        words=_MOVING.words,
        players=8,
        crowd_of_ten=7,
        is_moving=True,
        seconds_min=4.0,
        seconds_max=75.0,
        until=Until.SEEN,
    ),
    Act(
        title=_CROWDING.title,
        words=_CROWDING.words,
        players=30,
        crowd_of_ten=6,
        ramp_s=2.0,
        seconds_min=5.0,
        # On an idle machine it takes ten.
        seconds_max=60.0,
        until=Until.GROWN,
    ),
    Act(title=_LEAVING.title, words=_LEAVING.words, players=0, ramp_s=1.0, seconds_min=2.0, seconds_max=2.0),
    replace(_FLYING, players=0),
    replace(_CROSSING, players=0),
)
# Where nothing can be measured, for want of Java.
MOVES_ONLY = (
    Act(
        title=_MOVING.title,
        words="Three hubs, eight players. The tile that most of them stand on is moved from hub to hub, all the time.",
        players=8,
        crowd_of_ten=7,
        is_moving=True,
        seconds_min=10.0,
        seconds_max=10.0,
    ),
)
