"""Merge one stream at a hub that relays it, from the hubs that send it.

A relay *follows* one source at a time, whose messages are in order and complete. When the topic gets a new home, the
relay also attaches there, and the new home replies with the position from which it sends (`join_at`). Until the old
source has sent the stream up to that position, messages of the new source wait. Then the relay switches, and leaves the
old source. Followers attach at the current position of the home or, for a content topic, of a follower along the tree.

Without a source, the relay receives topics that match its clients' patterns from their homes. Two homes send over two
links, without order between them. The new home sends the position that its epoch follows (Opened). Unless the relay has
reached that position, it requests a flush from the old home, and the new epoch waits for the reply, or for the death of
that hub. Epochs are taken in order, so this also holds for chains of moves.

A parent in a tree sends the stream from a position in the middle of an epoch. If the relay leaves it before it has
reached that position, the messages that the parent has sent, or sends until it receives the DETACH, are *stray*: the
relay receives them again from the home or from its next source, after the messages missing before them.

Always true:
    a part waits only for another hub's reply, for a lower epoch that waits, or for a dependency;
    parts of one origin are taken in the order in which it sent them.

hub/cluster/relay_merge.py sends the frames and delivers the messages.
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
    """The rules that depend on other streams and other hubs."""

    def is_passed(self, stream: S_contra, dependency: Dependency) -> bool:
        """Whether this hub has passed that position of another stream; if not, `due` is called again when it has."""

    def is_alive(self, hub: str) -> bool:
        """Whether the hub is alive; a dead hub sends nothing more."""

    def flush(self, stream: S_contra, hub: str, epoch: int) -> None:
        """Request a reply from the hub once it has sent all of the epoch."""


# Memory of a waiting part beside its payloads: 336 bytes by tracemalloc, rounded up.
ARRIVAL_BYTES = 350


class Arrival(NamedTuple):
    """A part of the stream, the hub that sent it, and that hub's epoch."""

    origin: str
    epoch: int
    part: Part
    # Whether it is from a parent that was left before it was followed.
    is_stray: bool = False

    @property
    def size(self) -> int:
        """Memory in bytes, also for parts without payloads."""
        messages = len(self.part.payloads) if isinstance(self.part, Messages | FilteredRun) else 0
        return ARRIVAL_BYTES + PAYLOAD_BYTES * messages + size_of(self.part)


class Switch(NamedTuple):
    """The relay has switched to its new source."""

    left: str | None
    """The old source, to leave."""
    jump_to: tuple[int, int] | None
    """Without an old source: no more messages before this position will arrive."""


class RelayMerge:
    """The source of one stream at a relay, and its waiting parts. `Stream` derives from it."""

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
        # The current source; the next source, and the position after which that sends.
        self.source: str | None = None
        self.joining: str | None = None
        self.join_at: tuple[int, int] | None = None
        # Whether the next source is a parent in a tree, which does not number the stream; and by parent that was left
        # before it was followed, the number of outstanding confirmations that it sends no more.
        self.joins_parent = False
        self.strays: dict[str, int] = {}
        # For a content topic, versions of the plan: the one confirmed by the source, the one requested from it since,
        # and the one requested from the next source, -1 before that request.
        self.under = self.renewing = self.asked_under = 0
        self.pending: deque[Arrival] = deque()
        # While parts wait: by hub and epoch, whether all that the hub had of the epoch has arrived.
        self.flushes: dict[tuple[str, int], bool] = {}

    @property
    def position(self) -> tuple[int, int]:
        """Epoch and n of the last message."""
        raise NotImplementedError

    # Arriving parts.

    def continues(self, epoch: int, n: int) -> bool:
        """Whether messages from (epoch, n) on continue the stream: only then are messages of hubs other than the source
        due.
        """
        at_epoch, at_n = self.position
        return epoch < at_epoch or (epoch == at_epoch and n <= at_n + 1)

    @property
    def will_end(self) -> bool:
        """Of a lane that its hub has ended: whether the end is among the waiting parts, or will arrive behind them.

        A hub that has left the lane receives no end, and no client of it needs the waiting parts.
        """
        is_followed = self.source is not None or self.joining is not None
        return bool(self.pending) and (
            is_followed or any(isinstance(one.part, Ended) for one in self.pending)
        )

    def has_attached(self, hub: str) -> bool:
        """Whether the hub has confirmed this hub's last request.

        A filtered run accounts for positions by the sender's filters. A hub that this one has left may not have
        received that yet, nor the current filters: its runs do not account for omitted messages.
        """
        return hub == self.source or (hub == self.joining and self.join_at is not None)

    def may_open(self: S, rules: RelayRules[S], origin: str, opened: Opened) -> bool:
        """Whether the stream may continue in that epoch: no more of the previous epochs will arrive."""
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
        """Whether to drop a part that is due: a stray one that does not continue the stream.

        Filters may have changed since a stray filtered run was sent, so it does not account for omitted messages.
        """
        part = arrival.part
        if not arrival.is_stray or not isinstance(part, Messages | FilteredRun):
            return False
        return isinstance(part, FilteredRun) or not self.continues(part.epoch, part.n)

    def is_ahead(self, arrival: Arrival) -> bool:
        """Whether the part is from a hub other than the source, in an epoch that the stream has not reached.

        A dependency then has to wait: forwarded at once, it would precede messages of the current epoch, which other
        streams may depend on.
        """
        return self.source not in (None, arrival.origin) and arrival.epoch > self.position[0]

    def due(self: S, rules: RelayRules[S]) -> Iterator[Arrival]:
        """The waiting parts that have become due, lower epochs first. The caller takes each, unless it is void, before
        the next iteration.
        """
        waiting = sorted(self.pending, key=lambda arrival: arrival.epoch)
        self.pending.clear()
        blocked: set[str] = set()
        # Hubs whose dependencies wait for their epoch: its Opened may be taken first, their messages may not.
        ahead: set[str] = set()
        # Without a source, which sends all in order, an epoch waits for the previous ones.
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
        """All that the hub had of the epoch has arrived; return whether a flush was requested."""
        if (hub, epoch) not in self.flushes:
            return False
        self.flushes[hub, epoch] = True
        return True

    # Sources.

    def follow(self, home: str) -> tuple[str | None, bool]:
        """Follow the stream at its home; return the hub to leave, if any, and whether to attach to the home."""
        left = None
        if self.joining not in (None, home):
            left = self._leave_next()
        if self.source == home or self.joining is not None:
            return left, False
        self.joining = home
        return left, True

    def succeed(self, home: str) -> None:
        """This hub numbered the stream; the next home, as source, continues it."""
        self.source, self.joining = home, None
        self.under = self.renewing = 0

    def attached(self, origin: str, epoch: int, n: int) -> bool:
        """A hub sends the stream after this position; return whether it is the source: then jump to the position."""
        if origin == self.source:
            return True
        if origin == self.joining:
            self.join_at = (epoch, n)
        return False

    def begun(self, origin: str) -> None:
        """A lane has one source: the hub that numbers it."""
        self.source, self.joining = origin, None

    def switch(self, *, is_behind: bool) -> Switch | None:
        """Switch to the new source, if the old one has sent the stream up to the new one's beginning.

        `is_behind`: without an old source, whether subscribers here still wait for earlier messages.
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
        """Follow no hub; return the hubs to leave."""
        left = [hub for hub in (self.source, self._leave_next()) if hub is not None]
        self.source = None
        self.under = self.renewing = 0
        return left

    def lost(self, hub: str, *, is_gone: bool) -> None:
        """The hub's link is lost: it sends no more. `is_gone`: it is dead and will not reply; else request again."""
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
        """Do not attach to the next source any more. All parts of a parent, past and future, are stray."""
        hub, self.joining, self.join_at = self.joining, None, None
        if hub is not None and self.joins_parent:
            self.strays.setdefault(hub, 0)
            self.pending = deque(
                arrival._replace(is_stray=True) if arrival.origin == hub else arrival
                for arrival in self.pending
            )
        return hub

    def confirmed_left(self, hub: str) -> None:
        """One request has confirmed that the hub, which was left, sends no more."""
        if hub in self.strays:
            self.strays[hub] -= 1
            if self.strays[hub] <= 0:
                del self.strays[hub]
