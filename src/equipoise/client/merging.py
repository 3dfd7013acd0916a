"""Take one topic's stream from one link, and change to another link without losing or repeating anything. Pure.

A stream is taken from one source at a time. To change, the new one is subscribed to as well; its answer says from which
position on it sends. What it sends waits until the old source has brought the stream that far; then the old one is
left. So there is a live subscription all the time, and nobody who listens notices.

    alone     ──join──►  joining  ──confirmed at p──►  merging  ──passed p──►  alone, at the new source
                            └──── lost, refused ────────────┴──►  alone, at the old one

If the old source is lost meanwhile, or does not get as far in time, or more waits than may be kept, the new one is
taken at once: what lies between is a gap.

Always true: what waits came from the joining source, in order, and is at most `bytes_max` long.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from equipoise.client.cursor import TopicCursor


class Via(Protocol):
    """A link, as a stream sees it: where its name is subscribed."""

    def leave(self, name: bytes) -> None:
        """End the subscription there."""


class Sink(Protocol):
    """Whoever the stream is for."""

    name: bytes

    def on_down(self) -> None:
        """Nothing comes until another source has been found, or this one has come back."""

    def on_live(self, missed: int | None) -> None:
        """The stream goes on, after a loss of this many messages; None if nobody can say how many."""

    def on_messages(self, epoch: int, n: int, payloads: list[bytes], missed: int | None) -> None: ...


class _Waiting(NamedTuple):
    """A part that came too early. No payloads: the opening of an epoch, after (after_epoch, n)."""

    epoch: int
    n: int
    payloads: list[bytes]
    after_epoch: int = 0


class MergedStream:
    """Owned by one channel."""

    __slots__ = (
        "_bytes_max",
        "_join_at",
        "_sink",
        "_waiting",
        "_waiting_bytes",
        "cursor",
        "joining",
        "source",
    )

    def __init__(self, sink: Sink, bytes_max: int) -> None:
        self._sink = sink
        self._bytes_max = bytes_max
        self.cursor = TopicCursor()
        self.source: Via | None = None
        self.joining: Via | None = None
        # Where the joining source took us in, once it has.
        self._join_at: tuple[int, int] | None = None
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0

    @property
    def awaits(self) -> object:
        """What a source has yet to bring before another one, or itself, is taken; None: nothing."""
        return self.cursor.behind if self._join_at is None else (self.joining, self._join_at)

    # What is wanted.

    def join(self, via: Via) -> None:
        """Change to another source, which has just been asked."""
        if self.source is None:
            self.source = via
            return
        self.stay()
        self.joining = via

    def stay(self) -> None:
        """Do not change after all."""
        if self.joining is not None:
            self.joining.leave(self._sink.name)
        self._forget_joining()

    def hurry(self) -> None:
        """Wait no longer for the old source, nor for one that lags: whatever has not been brought is lost."""
        if self._join_at is not None:
            self._switch()
        elif self.cursor.behind is not None:
            self._sink.on_live(self.cursor.resume(*self.cursor.behind, may_lag=False))

    def forget_position(self) -> None:
        """The source has none."""
        self.cursor = TopicCursor()

    # What comes.

    def confirmed(self, via: Via, epoch: int, last_n: int, *, may_lag: bool) -> None:
        """A hub serves us from here on; the stream stands at last_n, there at least."""
        if via is self.source:
            self._sink.on_live(self.cursor.resume(epoch, last_n, may_lag=may_lag))
        elif via is self.joining:
            self._join_at = (epoch, last_n)
        self._advance()

    def receive(self, via: Via, epoch: int, n: int, payloads: list[bytes]) -> None:
        if via is self.source:
            self._take(epoch, n, payloads)
            if self._join_at is not None:
                self._advance()
        elif via is self.joining and self._join_at is not None:
            self._wait(_Waiting(epoch, n, payloads))

    def opened(self, via: Via, epoch: int, after_epoch: int, after_n: int) -> None:
        """The stream goes on in another epoch."""
        if via is self.source:
            self._open(epoch, after_epoch, after_n)
            self._advance()
        elif via is self.joining and self._join_at is not None:
            self._wait(_Waiting(epoch, after_n, [], after_epoch))

    def lost(self, via: Via) -> None:
        """A link is over. Without a source nothing comes until another one is joined."""
        if via is self.joining:
            self._forget_joining()
        elif via is self.source:
            self._sink.on_down()
            if self._join_at is not None:
                self.source = None
                self._switch()
            else:
                self.source, self.joining = self.joining, None

    def paused(self, via: Via) -> None:
        """A link is down, and will be up again, perhaps at another hub: take the joining source rather than wait."""
        if via is self.source and self.joining is not None:
            via.leave(self._sink.name)
            self.lost(via)
        elif via is self.source:
            self._sink.on_down()
        elif via is self.joining:
            self._join_at = None
            self._waiting.clear()
            self._waiting_bytes = 0

    # Inside.

    def _take(self, epoch: int, n: int, payloads: list[bytes]) -> None:
        skip, missed = self.cursor.accept(epoch, n, len(payloads))
        if skip:
            n, payloads = n + skip, payloads[skip:]
        if payloads or missed != 0:
            self._sink.on_messages(epoch, n, payloads, missed)

    def _open(self, epoch: int, after_epoch: int, after_n: int) -> None:
        missed = self.cursor.open(epoch, after_epoch, after_n)
        if missed != 0:
            self._sink.on_messages(epoch, 1, [], missed)

    def _wait(self, part: _Waiting) -> None:
        self._waiting.append(part)
        self._waiting_bytes += sum(map(len, part.payloads))
        if self._waiting_bytes > self._bytes_max:
            self._switch()
        else:
            self._advance()

    def _advance(self) -> None:
        """Change to the new source if the old one has brought us to where it took us in."""
        if self._join_at is not None and self.cursor.position >= self._join_at:
            self._switch()

    def _switch(self) -> None:
        assert self._join_at is not None, "the new source serves us"
        if self.source is not None:
            self.source.leave(self._sink.name)
        join_at, waiting = self._join_at, self._waiting
        self.source, self._waiting = self.joining, deque()
        self._forget_joining()
        self._sink.on_live(self.cursor.resume(*join_at, may_lag=True))
        for epoch, n, payloads, after_epoch in waiting:
            if payloads:
                self._take(epoch, n, payloads)
            else:
                self._open(epoch, after_epoch, n)

    def _forget_joining(self) -> None:
        self.joining = self._join_at = None
        self._waiting.clear()
        self._waiting_bytes = 0
