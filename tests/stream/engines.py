"""The two merge engines behind one interface, for tests of both: sources in, positions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from equipoise.stream.cursor import repeated
from equipoise.stream.merge import TopicMerge
from equipoise.stream.parts import Dependency, Messages, Opened, Part
from equipoise.stream.position import TRUNK, Position
from equipoise.stream.relay import Arrival, RelayMerge

Taken: TypeAlias = list[Position | int | None]


class Engine(Protocol):
    """A subscriber of one trunk. `taken`: positions in the order they came, gaps as numbers or None."""

    taken: Taken

    def join(self, source: str, at: tuple[int, int]) -> None:
        """Change to this source, which brings the stream after a position."""

    def receive(self, source: str, part: Part) -> None: ...

    @property
    def sources(self) -> set[str]:
        """Those that have not been left."""


class ClientEngine:
    """TopicMerge, as a client's channel uses it."""

    def __init__(self) -> None:
        self.taken: Taken = []
        self.merge = TopicMerge(self, 1 << 30)
        self._sources: dict[str, _Source] = {}

    def join(self, source: str, at: tuple[int, int]) -> None:
        new = self._sources[source] = _Source()
        self.merge.want([new])
        self.merge.begin(new, TRUNK, *at)
        self.merge.greeted(new)

    def receive(self, source: str, part: Part) -> None:
        known = self._sources[source]
        if isinstance(part, Messages):
            self.merge.receive(known, TRUNK, *part)
        elif isinstance(part, Opened):
            self.merge.opened(known, part.epoch, part.after_epoch, part.after_n)

    @property
    def sources(self) -> set[str]:
        return {name for name, source in self._sources.items() if source.is_live}

    def on_down(self) -> None:
        raise AssertionError("there is a source all the time")

    def on_live(self, missed: int | None) -> None:
        if missed != 0:
            self.taken.append(missed)

    def on_messages(self, epoch: int, n: int, payloads: Sequence[bytes], missed: int | None) -> None:
        if missed != 0:
            self.taken.append(missed)
        self.taken += [Position(epoch, n + k) for k in range(len(payloads))]


class _Source:
    def __init__(self) -> None:
        self.is_own = False
        self.is_live = True
        self.left_out: set[bytes] = set()

    def leave(self) -> None:
        assert self.is_live, "a source is left once"
        self.is_live = False


_START = Position(0, 0)


class RelayEngine(RelayMerge):
    """RelayMerge with the least that a hub does around it: take what is due, switch, and say what it would send."""

    __slots__ = ("_at", "dead", "flush_requests", "others", "taken")

    def __init__(self, at: Position = _START) -> None:
        super().__init__()
        self.taken: Taken = []
        self.flush_requests: list[tuple[str, int]] = []
        self.dead: set[str] = set()
        # Positions of other streams of the topic.
        self.others: dict[bytes, tuple[int, int]] = {}
        self._at = at

    @property
    def position(self) -> tuple[int, int]:
        return self._at

    @property
    def sources(self) -> set[str]:
        return {hub for hub in (self.source, self.joining) if hub is not None}

    def join(self, source: str, at: tuple[int, int]) -> None:
        self.follow(source)
        if self.attached(source, *at):
            self._jump(at)
        self.advance()

    def receive(self, source: str, part: Part, *, epoch: int | None = None) -> None:
        own = self._at[0] if isinstance(part, Dependency) else part.epoch
        arrival = Arrival(source, own if epoch is None else epoch, part, source in self.strays)
        if not self.pending and self.is_due(self, arrival) and not self.is_void(arrival):
            self._take(part)
        else:
            self.pending.append(arrival)
        self.advance()

    def advance(self) -> None:
        while self._take_due() or self._switch():
            pass

    def _take_due(self) -> bool:
        taken = 0
        for arrival in self.due(self) if self.pending else ():
            if not self.is_void(arrival):
                self._take(arrival.part)
            taken += 1
        return taken > 0

    def _switch(self) -> bool:
        switch = self.switch(is_behind=bool(self.pending))
        if switch is not None and switch.jump_to is not None:
            self._jump(switch.jump_to)
        return switch is not None

    def _take(self, part: Part) -> None:
        if isinstance(part, Messages):
            skip = repeated(*self._at, part.epoch, part.n, len(part.payloads))
            new = [Position(part.epoch, part.n + k) for k in range(skip, len(part.payloads))]
            self.taken += new
            self._at = new[-1] if new else self._at
        elif isinstance(part, Opened):
            self._jump((part.epoch, 0))

    def _jump(self, at: tuple[int, int]) -> None:
        self._at = max(self._at, Position(*at))

    # Rules.

    def is_passed(self, stream: RelayMerge, dependency: Dependency) -> bool:
        return self.others.get(dependency.stream, (0, 0)) >= dependency[1:]

    def is_alive(self, hub: str) -> bool:
        return hub not in self.dead and hub != ""

    def flush(self, stream: RelayMerge, hub: str, epoch: int) -> None:
        self.flush_requests.append((hub, epoch))
