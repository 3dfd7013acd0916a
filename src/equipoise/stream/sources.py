"""Streams of one topic by source, and waiting parts, for merge.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from equipoise.stream.cursor import Cursor
from equipoise.stream.parts import Begun, Dependency, Part, size_of


class Sink(Protocol):
    """The subscriber that receives the merged streams."""

    def on_down(self) -> None:
        """The trunk has no source, until another is found or this one is live again."""

    def on_live(self, missed: int | None) -> None:
        """The trunk continues, after a loss of `missed` messages; None: an unknown number."""

    def on_messages(self, epoch: int, n: int, payloads: Sequence[bytes], missed: int | None) -> None:
        """Messages in order, the first at n, after a loss of `missed` messages; None: an unknown number."""


class Source(Protocol):
    """A subscription to the topic over one link."""

    is_own: bool
    """Whether it sends only some streams of the topic."""
    is_live: bool
    """Whether its hub has confirmed it."""
    left_out: set[bytes]
    """Streams that it does not send, as listed by its hub. It sends those that begin later."""

    def leave(self) -> None:
        """End the subscription; no more messages arrive over it."""


class Intake:
    """One stream from one source."""

    __slots__ = ("is_caught_up", "parts", "source", "start", "stream")

    def __init__(self, stream: MergedStream, source: Source, start: tuple[int, int]) -> None:
        self.stream = stream
        self.source = source
        # The position after which the source sends the stream.
        self.start = start
        # Whether the stream has reached `start`: the source's messages then continue or repeat it.
        self.is_caught_up = False
        # Parts that wait for the stream to reach `start`, or for another stream.
        self.parts: deque[Part] = deque()


class MergedStream:
    """The trunk, or a lane."""

    __slots__ = ("cursor", "intakes", "is_orphan", "name")

    def __init__(self, name: bytes, cursor: Cursor) -> None:
        self.name = name
        self.cursor = cursor
        self.intakes: dict[Source, Intake] = {}
        # Whether it ends once no source sends it: its hub is dead.
        self.is_orphan = False

    @property
    def is_served(self) -> bool:
        return any(intake.is_caught_up for intake in self.intakes.values())

    @property
    def is_awaited(self) -> bool:
        """Whether a source sends it from a position that it has not reached."""
        return not all(intake.is_caught_up for intake in self.intakes.values())

    def is_awaited_from(self, sources: Iterable[Source]) -> bool:
        """Whether one of these sources has not announced the lane yet, and may send it from an earlier position."""
        return bool(self.name) and any(
            source.is_live and source not in self.intakes and self.name not in source.left_out
            for source in sources
        )

    def next_lanes(self) -> list[tuple[Source, list[Part]]]:
        """By source, its parts of later lanes of that name."""
        found: list[tuple[Source, list[Part]]] = []
        for source, intake in self.intakes.items():
            parts = list(intake.parts)
            if intake.start[0] > self.cursor.epoch:
                found.append((source, [Begun(*intake.start), *parts]))
            elif begun := [at for at, part in enumerate(parts) if type(part) is Begun]:
                found.append((source, parts[begun[0] :]))
        return found


class MergedStreams(dict[bytes, MergedStream]):
    """The streams of one topic by name, each created at its first use."""

    def __init__(self) -> None:
        super().__init__()
        # By stream, the position that the subscriber had reached when it left; and by lane, its last ended epoch.
        self._floors: dict[bytes, tuple[int, int]] = {}
        self.over: dict[bytes, int] = {}

    def __missing__(self, name: bytes) -> MergedStream:
        floor = self._floors.get(name)
        made = self[name] = MergedStream(name, Cursor() if floor is None else Cursor(floor=floor))
        return made

    @property
    def reached(self) -> tuple[tuple[int, int], ...]:
        """Positions of awaited streams, to detect progress: a hub with a backlog still sends them, though late."""
        return tuple(stream.cursor.position for stream in self.values() if stream.is_awaited)

    def is_due(self, part: Part, sources: Iterable[Source]) -> bool:
        """Whether a part need not wait for another stream.

        A lane that a source leaves out has yet to be announced by another source, unless it has ended.
        """
        if type(part) is not Dependency:
            return True
        other = self.get(part.stream)
        if other is not None:
            return other.cursor.position >= (part.epoch, part.n)
        is_over = part.epoch <= self.over.get(part.stream, -1)
        return is_over or not any(part.stream in source.left_out for source in sources)

    def orphan(self, sources: Collection[Source]) -> None:
        """Mark lanes that none of these sources sends as ended, unless all sources have left them out."""
        for stream in self.values():
            is_named = not stream.name or bool(stream.intakes)
            if not is_named and any(stream.name not in source.left_out for source in sources):
                stream.is_orphan = True

    def give_up(self, lanes: Iterable[MergedStream]) -> None:
        """A hub did not list these lanes, so they were ended. If it only lags, they continue at their positions."""
        for lane in lanes:
            self.over[lane.name] = lane.cursor.epoch - 1
            self._floors[lane.name] = lane.cursor.position

    def bookmark(self) -> MergedStreams:
        """The state for a returning subscriber, whose next hub may lag behind this one."""
        left = MergedStreams()
        left.over = dict(self.over)
        passed = {name: stream.cursor.position for name, stream in self.items() if stream.cursor.epoch >= 0}
        left._floors = {**self._floors, **passed}
        return left


class WaitingParts:
    """Intakes with waiting parts, the longest waiting first, and the bytes of their messages."""

    __slots__ = ("bytes", "intakes")

    def __init__(self) -> None:
        self.intakes: dict[Intake, None] = {}
        self.bytes = 0

    def add(self, intake: Intake, part: Part) -> None:
        intake.parts.append(part)
        self.intakes[intake] = None
        self.bytes += size_of(part)

    def take(self, intake: Intake) -> Part:
        """Remove and return the first part of an intake."""
        part = intake.parts.popleft()
        self.bytes -= size_of(part)
        if not intake.parts:
            self.intakes.pop(intake, None)
        return part

    def drop(self, intake: Intake) -> None:
        while intake.parts:
            self.take(intake)
