"""Groups of players that tour a coast: the best hub for a group changes all the time (after ePulsar 5.8.2).

In the paper's session a topic has one publisher, so the hub of its city is always the best, and in five cities of one
country a central hub serves every pair. Here a topic belongs to a group: all its players publish and subscribe to it. A
group plays in three neighbouring cities at a time, and moves on along the coast, to its end and back. Players stay in
their cities: they join a group that plays there, and leave it when it has moved on.

No hub is within the limit of all cities from Tokyo to Jakarta, but every three neighbours have such a hub: a topic must
follow its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.client.url import Endpoint
from equipoise.lab.experiments.epulsar_session import GameSession, LightPlayer, Table
from equipoise.lab.simulation import Simulation

__all__ = ["COAST", "TourSession", "arena", "cities_of"]

# In order; neighbours are at most 1,730 km apart, the ends 5,800.
COAST = ("tokyo", "osaka", "seoul", "taipei", "hong-kong", "bangkok", "singapore", "jakarta")
# Cities that a group plays in at a time.
STAGE = 3
# Interval at which players leave and join groups.
LOOK_S = 1.0
NO_GROUP = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TourSession(GameSession):
    """One run."""

    cities: int = len(COAST)
    updates_per_s: float = 20.0
    # Time that a group plays in the same cities.
    stop_s: float = 30.0

    @property
    def names(self) -> tuple[str, ...]:
        return COAST[: self.cities]

    @property
    def cloud(self) -> str:
        return self.names[len(self.names) // 2]

    @property
    def pattern(self) -> bytes:
        return b"arena/*"

    @property
    def topics(self) -> tuple[bytes, ...]:
        return tuple(arena(group) for group in range(self.groups))

    def table(self, sim: Simulation) -> Table:
        return TourTable(sim, self)


def arena(group: int) -> bytes:
    """The topic of a group; empty without a group."""
    return b"arena/%d" % group if group != NO_GROUP else b""


def cities_of(session: TourSession, group: int, at_s: float) -> range:
    """The cities of a group: along the coast and back, with groups at equal distances."""
    last = session.cities - STAGE
    step = int(at_s / session.stop_s + 2 * last * group / session.groups) % (2 * last)
    first = min(step, 2 * last - step)
    return range(first, first + STAGE)


class TourTable(Table):
    """All players. A player waits while no group plays in its city."""

    def __init__(self, sim: Simulation, session: TourSession) -> None:
        super().__init__(sim, session)
        self._tour = session
        # By player, the time at which it leaves its group.
        self._until = [0.0] * session.players
        for player in self.players:
            player.topic = arena(NO_GROUP)

    def begin(self, entries: Sequence[Endpoint]) -> None:
        self._began = self._sim.now
        for player in self.players:
            player.host.spawn(player.begin(entries), name="play")
        self._look()

    def _look(self) -> None:
        """Players whose group has moved on or whose time is over leave; players without a group join one."""
        at_s = self._sim.now - self._began
        playing = [cities_of(self._tour, group, at_s) for group in range(self._tour.groups)]
        for player in self.players:
            city = player.number % self._tour.cities
            here = [group for group, cities in enumerate(playing) if city in cities]
            if player.group in here and at_s < self._until[player.number]:
                continue
            others = [group for group in here if group != player.group] or here
            self._send(player, others[int(self._random() * len(others))] if others else NO_GROUP)
            self._until[player.number] = at_s + self._stay_s()
        self._sim.loop.call_later(LOOK_S, self._look)

    def _send(self, player: LightPlayer, group: int) -> None:
        if group == player.group:
            return
        self.changes += self.latencies is not None
        if player.topic:
            player.host.spawn(player.ignore([player.topic]), name="ignore")
        player.group, player.topic, player.joined_at = group, arena(group), self._sim.now
        if player.topic:
            player.host.spawn(player.hear([player.topic]), name="hear")

    def _mates(self, player: LightPlayer) -> list[LightPlayer]:
        return [] if player.group == NO_GROUP else super()._mates(player)
