"""The cluster state of one topic's stream at one hub.

A topic that is simply open has no `Stream` at all, so that publishing to it costs what it costs without other hubs. The
states are those of stream/handover.py, which alone changes them; the sources and what waits of the stream are those of
stream/relay.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from equipoise.stream.admission import Admission
from equipoise.stream.effects import End
from equipoise.stream.effects import StreamState as State
from equipoise.stream.position import TRUNK
from equipoise.stream.relay import RelayMerge
from equipoise.stream.submission import NOWHERE, Budget

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frames import Life
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.stream_interest import StreamInterest
    from equipoise.hub.data.topic import Topic

__all__ = ["FollowRequest", "PublishRoute", "State", "Stream"]


class PublishRoute:
    """Where the messages of this hub's clients to one topic go. Owned by its trunk's Stream."""

    __slots__ = ("after", "is_due", "is_recalled", "is_unused", "now", "target")

    def __init__(self) -> None:
        # The stream that messages go to, and whether none has gone there yet; and the one that they are to go to.
        self.now = TRUNK
        self.is_unused = False
        self.target = TRUNK
        # What the next message comes after, by stream, the latest last; and whether it has to say so.
        self.after: dict[bytes, tuple[int, int]] = {}
        self.is_due = False
        # Whether the hub of `now` was asked to return what waits there: what comes next must not overtake that.
        self.is_recalled = False

    @property
    def is_settled(self) -> bool:
        """Whether messages may go at once to where they are to go."""
        return self.now == self.target and not self.is_recalled

    def change(self) -> None:
        """The next message goes to the target."""
        self.now, self.is_due, self.is_unused, self.is_recalled = self.target, bool(self.after), True, False

    @property
    def is_plain(self) -> bool:
        """Whether messages go to the trunk as if there were nothing else."""
        return not (self.now or self.target or self.is_due or self.is_recalled)


class FollowRequest(NamedTuple):
    """A hub asks to be sent a stream, and waits for that."""

    # Of its question; 0: it is sent the stream, and asks whether it may go on under another plan.
    ticket: int
    # Of the plan that it asks under; 0: any.
    version: int = 0
    # Whether it is to be answered only by the hub that numbers the stream.
    needs_home: bool = True


class Stream(RelayMerge):
    """One topic at one hub, while there is more to know about it than that it is open here."""

    __slots__ = (
        "admission",
        "again",
        "asked_version",
        "closed_epoch",
        "confirmed",
        "ending",
        "flush_asked",
        "flush_ended",
        "flushing",
        "interest",
        "is_kept",
        "named",
        "peer",
        "pending_offer",
        "preparer",
        "relays_waiting",
        "seen",
        "since_version",
        "state",
        "term",
        "ticket",
        "topic",
        "waiters",
        "way",
    )

    def __init__(self, topic: Topic, state: State, peer: str | None, budget: Budget) -> None:
        super().__init__()
        self.topic = topic
        self.state = state
        # What the handover knows: see HandoverStream.
        self.peer = peer
        self.asked_version = 0
        self.since_version = 0
        self.preparer: str | None = None
        self.ending: End | None = None
        self.pending_offer: tuple[str, int] | None = None
        self.term = 0
        self.admission = Admission(budget, topic.key)
        # What the next messages of this hub's clients come after in this stream: see NamedPositions.
        self.named = self.confirmed = NOWHERE
        # On the way out. The number of the last ATTACH.
        self.ticket = 0
        # Messages up to this position may repeat what clients of a dead home have got: newcomers begin behind.
        self.again = NOWHERE
        # The last epoch that was closed here. Hubs that wait for the end of an epoch; the source that was asked for it,
        # with the epoch, and the one that has answered: see EpochFlush.
        self.closed_epoch = 0
        self.flushing: dict[OutLink, int] = {}
        self.flush_asked = self.flush_ended = ("", 0)
        # By home and the life of a hub, the sequence of the last message of that hub's clients that came from the home.
        self.seen: dict[tuple[str, Life], int] = {}
        # Whether it is followed even without a subscriber by name: see SubscriptionBarrier.is_kept.
        self.is_kept = False
        # What this hub wants of the stream where it has subscribers by filter; None: everything.
        self.interest: StreamInterest | None = None
        # Which stream of the topic this hub's own clients publish to; None: this one, the trunk, as long as there was
        # no other.
        self.way: PublishRoute | None = None
        # Who waits until the stream stands here: clients' subscriptions; other hubs.
        self.waiters: list[Callable[[], None]] = []
        self.relays_waiting: dict[OutLink, FollowRequest] = {}

    @property
    def position(self) -> tuple[int, int]:
        return self.topic.epoch, self.topic.n

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, so that an open topic needs no Stream."""
        is_plain = self.admission.is_empty and (self.way is None or self.way.is_plain)
        return is_plain and not (self.waiters or self.relays_waiting or self.pending_offer)

    @property
    def joining_links(self) -> list[OutLink]:
        """Hubs that this one is to send the stream on to, though it does not number it."""
        waiting = self.relays_waiting.items()
        return [link for link, asked in waiting if asked.ticket and not asked.needs_home]

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten once it has had no subscriber and no message for a while."""
        is_following = self.is_kept or self.source is not None or self.joining is not None
        return self.is_quiet and not is_following and self.state in (State.OPEN, State.REMOTE)

    @property
    def is_wanted(self) -> bool:
        """Whether a subscriber by name, here or behind this hub, wants the topic."""
        topic = self.topic
        return bool(self.is_kept or topic.is_heard or topic.relays or self.waiters)

    @property
    def is_ready(self) -> bool:
        """Whether a subscriber that comes now misses nothing from now on.

        While opening, a source may still bring what the former home has numbered: newcomers begin with the next epoch.
        """
        is_followed = self.state is State.REMOTE and self.source is not None
        return self.state.is_home or (is_followed and self.position >= self.again)
