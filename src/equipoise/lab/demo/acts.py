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

# Nine tiles, so that the world with three dozen players is neither empty nor full.
GAME = Game(tiles_per_side=3, payload_bytes=1_000, updates_per_s=3.0)
# The middle of the map.
FAVOURITE = (GAME.side_length / 2, GAME.side_length / 2)
# Small hubs, so that few players fill them on one machine: two dozen walking players are a quarter of the load of
# three hubs, and fifteen players on one tile need two hubs for that tile alone.
HUB_BYTES_PER_S = 400_000
# Sites of the hubs, in turn.
WEST, EAST = SITES = ("west", "east")


class Until(Enum):
    """The condition that an act waits for beside its duration. The report shows the text if it was not met."""

    NOTHING = "nothing"
    # Spark has started.
    SEEN = "the controller sees the load"
    # A hub was added, and the favourite tile has several homes.
    GROWN = "a hub is added, and the tile is spread over several"
    # The number of hubs is that of the beginning.
    SHRUNK = "the hubs that were added are released"
    # The topic of the swarm is near it.
    SETTLED = "the topic is near the swarm"
    # The swarm has crossed, and its topic is near it again.
    FOLLOWED = "the topic has followed the swarm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One part of the story."""

    title: str
    words: str
    # Number of players at the end of the act, and the time in which players join or leave.
    players: int
    ramp_s: float = 1.0
    # How many of ten players walk to the favourite tile.
    crowd_of_ten: int = 0
    # Whether the demo moves the favourite tile from hub to hub all the time.
    is_moving: bool = False
    # The site at which the swarm flies; empty: no swarm.
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
    words="Two dozen players walk over the map. Each receives the updates of the players on the same tile.",
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
# A short version for tests.
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
        # On an idle machine it takes 10 s.
        seconds_max=60.0,
        until=Until.GROWN,
    ),
    Act(title=_LEAVING.title, words=_LEAVING.words, players=0, ramp_s=1.0, seconds_min=2.0, seconds_max=2.0),
    replace(_FLYING, players=0),
    replace(_CROSSING, players=0),
)
# Without Java nothing can be measured.
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
