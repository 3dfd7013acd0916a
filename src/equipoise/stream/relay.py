"""Merge one stream at a hub that relays it, from the hubs that send it.

A relay *follows* one source at a time. What that sends is in order and complete. When the topic gets a new home the
relay attaches there as well, which says from which position on it sends (`join_at`). Until the old source has brought
the relay that far, what the new one sends waits. Then the relay switches, and leaves the old source. A home, or of
a content topic a hub that follows it along a tree, lets others attach where it is itself.

Without a source the relay hears the homes of topics that match its clients' patterns. Two homes send over two links
with no order between them. The new home says which position its epoch follows (Opened). Unless the relay has come to
that position, it asks the old home to say when all of the old epoch is on its way (a flush), and the new epoch waits
for that answer, or for the death of the hub that would have to give it. Epochs are taken in their order, so this holds
for chains of moves too.

A parent in a tree sends the stream from somewhere in the middle of an epoch on. If the relay leaves it before it has
come to that position, what the parent has sent, or still sends until it has received the DETACH, is *stray*: the relay
gets it again from the home or from its next source, behind what is missing before it.

Always true:
    what waits does so because of another hub's answer, of a lower epoch that waits, or of a dependency;
    parts of one origin are taken in the order in which it sent them.

Sending frames and delivering messages belong to hub/cluster/relay_merge.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeVar

from equipoise.stream.parts import (
    Again,
    Begun,
    Dependency,
    Ended,
    FilteredRun,
    Messages,
    Opened,
    Part,
    size_of,
)
from equipoise.stream.submission import PAYLOAD_BYTES

__all__ = ["Arrival", "RelayMerge", "RelayRules", "Switch"]

S = TypeVar("S", bound="RelayMerge")
S_contra = TypeVar("S_contra", bound="RelayMerge", contravariant=True)


class RelayRules(Protocol[S_contra]):
    """What depends on other streams and on other hubs."""

    def is_passed(self, stream: S_contra, dependency: Dependency) -> bool:
        """Whether this hub has passed that position of another stream; if not, `due` is asked again when it has."""

    def is_alive(self, hub: str) -> bool:
        """Whether there is such a hub; nothing more comes from one that is dead."""

    def flush(self, stream: S_contra, hub: str, epoch: int) -> None:
        """Ask the hub to say when all that it has of the epoch is sent."""


# What a part that waits takes beside its payloads: 336 bytes by tracemalloc, rounded up.
ARRIVAL_BYTES = 350


class Arrival(NamedTuple):
    """A part of the stream, the hub that sent it, and the epoch that the hub was in."""

    origin: str
    epoch: int
    part: Part
    # Whether it came from a parent that was left before it was followed.
    is_stray: bool = False

    @property
    def size(self) -> int:
        """Bytes of memory, whatever the part: one without a payload waits as long as any."""
        messages = len(self.part.payloads) if isinstance(self.part, Messages | FilteredRun) else 0
        return ARRIVAL_BYTES + PAYLOAD_BYTES * messages + size_of(self.part)


class Switch(NamedTuple):
    """The relay follows its new source from now on."""

    left: str | None
    """The old source, to be left."""
    jump_to: tuple[int, int] | None
    """Without an old source nothing before this position will come any more."""


class RelayMerge:
    """Which hub one stream is followed at, and what waits. A stream at a hub derives from it."""

    __slots__ = (
        "asked_under",
        "flushes",
        "join_at",
        "joining",
        "joins_parent",
        "pending",
        "renewing",
        "source",
        "strays",
        "under",
    )

    def __init__(self) -> None:
        # The hub that is followed; the one that is attached to in its place, and where that said it begins.
        self.source: str | None = None
        self.joining: str | None = None
        self.join_at: tuple[int, int] | None = None
        # Whether the next source is a parent in a tree, which does not number the stream; and by parent that was left
        # before it was followed, how often it has yet to confirm that nothing more comes from there.
        self.joins_parent = False
        self.strays: dict[str, int] = {}
        # Of a content topic, versions of the plan: the one that the source lets this hub follow under, the one that it
        # was asked for beyond that, and the one that the next source was asked for, or -1 before it was asked.
        self.under = self.renewing = self.asked_under = 0
        self.pending: deque[Arrival] = deque()
        # While parts wait: by hub and epoch, whether all that the hub had to send of it is here.
        self.flushes: dict[tuple[str, int], bool] = {}

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and n of the last message taken."""
        raise NotImplementedError

    # What arrives.

    def continues(self, epoch: int, n: int) -> bool:
        """Whether messages from (epoch, n) on continue what was taken: only then are those of another hub than the
        source due.
        """
        at_epoch, at_n = self.position
        return epoch < at_epoch or (epoch == at_epoch and n <= at_n + 1)

    def has_attached(self, hub: str) -> bool:
        """Whether the hub answered the last request of this one.

        A filtered run accounts for positions by the filters that its sender knows. A hub that this one has left may not
        know that yet, nor the filters of today: its runs say nothing about the messages that they leave out.
        """
        return hub == self.source or (hub == self.joining and self.join_at is not None)

    def may_open(self: S, rules: RelayRules[S], origin: str, opened: Opened) -> bool:
        """Whether the stream may go on in that epoch: nothing of the epochs before it will come any more."""
        at_epoch, at_n = self.position
        if opened.epoch <= at_epoch or origin == self.source:
            return True
        if at_epoch == opened.after_epoch and at_n >= opened.after_n:
            return True
        if self.source is not None:
            return False
        if opened.after_epoch < at_epoch or not rules.is_alive(opened.after_hub):
            return True
        key = opened.after_hub, opened.after_epoch
        is_ended = self.flushes.get(key)
        if is_ended is None:
            self.flushes[key] = False
            rules.flush(self, *key)
        return bool(is_ended)

    def is_due(self: S, rules: RelayRules[S], arrival: Arrival) -> bool:
        part = arrival.part
        if isinstance(part, Messages | FilteredRun):
            is_fed = arrival.is_stray or self.source in (None, arrival.origin)
            return is_fed or self.continues(part.epoch, part.n)
        if isinstance(part, Dependency):
            return not self.is_ahead(arrival) and rules.is_passed(self, part)
        if isinstance(part, Opened):
            return self.may_open(rules, arrival.origin, part)
        assert isinstance(part, Begun | Ended | Again), "a part is one of seven"
        return True

    def is_void(self, arrival: Arrival) -> bool:
        """Whether a part that is due is not to be taken: a stray one that does not continue what was taken.

        Filters may have changed since a stray filtered run was sent, so it says nothing about what it leaves out.
        """
        part = arrival.part
        if not arrival.is_stray or not isinstance(part, Messages | FilteredRun):
            return False
        return isinstance(part, FilteredRun) or not self.continues(part.epoch, part.n)

    def is_ahead(self, arrival: Arrival) -> bool:
        """Whether a hub that is not followed yet says something of an epoch that the stream has not reached.

        A dependency is not taken then: passed on at once, it would stand before messages of the present epoch, which
        other streams may depend on.
        """
        return self.source not in (None, arrival.origin) and arrival.epoch > self.position[0]

    def due(self: S, rules: RelayRules[S]) -> Iterator[Arrival]:
        """What waits and has become due, lower epochs first. The caller takes each, unless it is void, before it asks
        for the next.
        """
        waiting = sorted(self.pending, key=lambda arrival: arrival.epoch)
        self.pending.clear()
        blocked: set[str] = set()
        # Hubs whose dependencies wait for their epoch: its opening may go first, their messages may not.
        ahead: set[str] = set()
        # Unless there is a source that brings everything in order, an epoch waits for those before it.
        epoch_max: float = float("inf")
        for arrival in waiting:
            is_early = self.source is None and arrival.epoch > epoch_max
            is_behind = arrival.origin in ahead and not isinstance(arrival.part, Opened)
            if is_early or is_behind or arrival.origin in blocked or not self.is_due(rules, arrival):
                is_dependency = isinstance(arrival.part, Dependency)
                (ahead if is_dependency and self.is_ahead(arrival) else blocked).add(arrival.origin)
                epoch_max = min(epoch_max, arrival.epoch)
                self.pending.append(arrival)
            else:
                yield arrival
        if not self.pending:
            self.flushes.clear()

    def flushed(self, hub: str, epoch: int) -> bool:
        """All that the hub had to send of the epoch is here; whether that was asked for."""
        if (hub, epoch) not in self.flushes:
            return False
        self.flushes[hub, epoch] = True
        return True

    # Whom to follow.

    def follow(self, home: str) -> tuple[str | None, bool]:
        """Follow the stream at its home; the hub to leave, if any, and whether to attach to the home."""
        left = None
        if self.joining not in (None, home):
            left = self._leave_next()
        if self.source == home or self.joining is not None:
            return left, False
        self.joining = home
        return left, True

    def succeed(self, home: str) -> None:
        """This hub numbered the stream; what the next home sends from its beginning on continues that."""
        self.source, self.joining = home, None
        self.under = self.renewing = 0

    def attached(self, origin: str, epoch: int, n: int) -> bool:
        """A hub sends the stream from the position after this one; whether that is the source: then jump there."""
        if origin == self.source:
            return True
        if origin == self.joining:
            self.join_at = (epoch, n)
        return False

    def begun(self, origin: str) -> None:
        """A lane has one source for all its life: the hub that numbers it."""
        self.source, self.joining = origin, None

    def switch(self, *, is_behind: bool) -> Switch | None:
        """Follow the new source, if the old one has brought the stream to where the new one begins.

        `is_behind`: without an old source, whether subscribers here still wait for what comes before.
        """
        join_at = self.join_at
        if join_at is None:
            return None
        left = self.source
        if is_behind if left is None else self.position < join_at:
            return None
        self.source, self.joining, self.join_at = self.joining, None, None
        self.under, self.renewing = self.asked_under, 0
        return Switch(left, join_at if left is None else None)

    def unfollow(self) -> list[str]:
        """Follow no hub; those to leave."""
        left = [hub for hub in (self.source, self._leave_next()) if hub is not None]
        self.source = None
        self.under = self.renewing = 0
        return left

    def lost(self, hub: str, *, is_gone: bool) -> None:
        """The hub sends nothing more of what it was asked for. Gone: nor will it answer; else it is asked again."""
        if is_gone:
            for key in self.flushes:
                if key[0] == hub:
                    self.flushes[key] = True
        else:
            self.flushes = {
                key: is_ended for key, is_ended in self.flushes.items() if is_ended or key[0] != hub
            }
        if self.joining == hub:
            self._leave_next()
        if self.source == hub:
            self.source = None
            self.under = self.renewing = 0

    def _leave_next(self) -> str | None:
        """Attach no more to the hub that was to be the next source. Of a parent all that came and comes is stray."""
        hub, self.joining, self.join_at = self.joining, None, None
        if hub is not None and self.joins_parent:
            self.strays.setdefault(hub, 0)
            self.pending = deque(
                arrival._replace(is_stray=True) if arrival.origin == hub else arrival
                for arrival in self.pending
            )
        return hub

    def confirmed_left(self, hub: str) -> None:
        """Nothing that was sent before the hub was left is on its way any more, as far as one question says."""
        if hub in self.strays:
            self.strays[hub] -= 1
            if self.strays[hub] <= 0:
                del self.strays[hub]
