"""The cluster state of one topic's stream at one hub.

A topic that is open here and involves no other hub has no `Stream`, so publishing to it costs the same as without a
cluster. Only stream/handover.py changes the states; stream/relay.py manages the sources and the pending parts.
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
    """The stream that this hub publishes one topic's messages to. Owned by the Stream of the topic's trunk."""

    __slots__ = ("after", "is_due", "is_recalled", "is_unused", "now", "target")

    def __init__(self) -> None:
        # The current stream, and whether no message was sent to it yet; and the stream to change to.
        self.now = TRUNK
        self.is_unused = False
        self.target = TRUNK
        # Dependencies of the next message by stream, the latest last; and whether the next message has to carry them.
        self.after: dict[bytes, tuple[int, int]] = {}
        self.is_due = False
        # Whether the hub of `now` was requested to return waiting messages, which further messages must not overtake.
        self.is_recalled = False

    @property
    def is_settled(self) -> bool:
        """Whether messages may be sent at once to the target."""
        return self.now == self.target and not self.is_recalled

    def change(self) -> None:
        """Send the next messages to the target."""
        self.now, self.is_due, self.is_unused, self.is_recalled = self.target, bool(self.after), True, False

    @property
    def is_plain(self) -> bool:
        """Whether messages are sent to the trunk, without dependencies."""
        return not (self.now or self.target or self.is_due or self.is_recalled)


class FollowRequest(NamedTuple):
    """The waiting request of a hub to follow a stream."""

    # Ticket of the request; 0: the hub follows already, and requests to continue under another plan.
    ticket: int
    # Version of the plan of the request; 0: any.
    version: int = 0
    # Whether only the hub that numbers the stream may confirm it.
    needs_home: bool = True


class Stream(RelayMerge):
    """State of one topic at one hub, while it has more state than that it is open here."""

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
        # State of the handover: see HandoverStream.
        self.peer = peer
        self.asked_version = 0
        self.since_version = 0
        self.preparer: str | None = None
        self.ending: End | None = None
        self.pending_offer: tuple[str, int] | None = None
        self.term = 0
        self.admission = Admission(budget, topic.key)
        # Positions named by this hub's clients in this stream: see NamedPositions.
        self.named = self.confirmed = NOWHERE
        # Egress: the ticket of the last ATTACH.
        self.ticket = 0
        # Messages up to this position may repeat what clients of a dead home received: new subscribers begin behind it.
        self.again = NOWHERE
        # The last epoch that was closed here. The hubs that wait for the end of an epoch; the source and epoch of this
        # hub's own FLUSH, and of its reply: see EpochFlush.
        self.closed_epoch = 0
        self.flushing: dict[OutLink, int] = {}
        self.flush_asked = self.flush_ended = ("", 0)
        # By home and incarnation of a hub, the sequence of that hub's last message that was received from the home.
        self.seen: dict[tuple[str, Life], int] = {}
        # Whether it is followed even without a subscriber by name: see SubscriptionBarrier.is_kept.
        self.is_kept = False
        # The filters that this hub needs of the stream; None: everything.
        self.interest: StreamInterest | None = None
        # The stream of the topic that this hub's clients publish to; None: this one, the trunk, which was the only one
        # so far.
        self.way: PublishRoute | None = None
        # Waiting until the stream is established here: subscriptions of clients, and requests of other hubs.
        self.waiters: list[Callable[[], None]] = []
        self.relays_waiting: dict[OutLink, FollowRequest] = {}

    @property
    def position(self) -> tuple[int, int]:
        return self.topic.epoch, self.topic.n

    @property
    def is_quiet(self) -> bool:
        """Whether no exchange is in progress, so that an open topic needs no Stream."""
        is_plain = self.admission.is_empty and (self.way is None or self.way.is_plain)
        return is_plain and not (self.waiters or self.relays_waiting or self.pending_offer)

    @property
    def joining_links(self) -> list[OutLink]:
        """Hubs that are to receive the stream from this hub, which does not number it."""
        waiting = self.relays_waiting.items()
        return [link for link, asked in waiting if asked.ticket and not asked.needs_home]

    @property
    def is_idle(self) -> bool:
        """Whether it may be removed once it has had no subscriber and no message for a while."""
        is_following = self.is_kept or self.source is not None or self.joining is not None
        return self.is_quiet and not is_following and self.state in (State.OPEN, State.REMOTE)

    @property
    def is_wanted(self) -> bool:
        """Whether a subscriber by name, of this hub or of a follower, needs the stream."""
        topic = self.topic
        return bool(self.is_kept or topic.is_heard or topic.relays or self.waiters)

    @property
    def is_ready(self) -> bool:
        """Whether a new subscriber would miss no message from now on.

        While opening, a source may still send messages of the former home; new subscribers begin with the next epoch.
        """
        is_followed = self.state is State.REMOTE and self.source is not None
        return self.state.is_home or (is_followed and self.position >= self.again)
