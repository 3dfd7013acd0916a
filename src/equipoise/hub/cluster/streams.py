"""The life of a topic's stream at one hub, as a table: states × events → next state and actions.

    open      the topic lives here: messages get their positions here
    closing   it still does; the hub that is to have it has been asked whether it is ready
    opening   it is to live here: messages are held until it is certain that nobody else numbers them
    remote    it lives elsewhere: messages are passed on, its stream is followed if anybody here listens

The plan is the only decision; everything below is how hubs carry it out without anybody's help
(docs/decisions/0005). `TABLE` is what the code runs, what is not in it changes nothing. A topic that is simply open
has no `Stream` at all, so that publishing to it costs what it costs without other hubs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from equipoise.stream.admission import Admission
from equipoise.stream.position import TRUNK
from equipoise.stream.relay import RelayMerge
from equipoise.stream.submission import Budget

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic

__all__ = ["TABLE", "Action", "Event", "PublishRoute", "State", "Stream"]


class State(Enum):
    OPEN = "open"
    CLOSING = "closing"
    OPENING = "opening"
    REMOTE = "remote"

    __hash__ = object.__hash__

    @property
    def is_home(self) -> bool:
        """Whether messages get their positions here."""
        return self is State.OPEN or self is State.CLOSING


class Event(Enum):
    """What can happen to a stream. Most concern another hub, the peer of the event."""

    HOME_HERE = "plan: home is me"
    HOME_SAME = "plan: home is still P"
    HOME_ELSEWHERE = "plan: home is another"
    UNHEARD = "plan: home is another, nobody listens"
    PREPARE = "PREPARE from H"
    PREPARED = "PREPARED from P"
    CLOSE = "CLOSE from H"
    CANCEL = "CANCEL from H"
    # The hub that had asked is dead, or no hub can have asked: every live one has said DONE.
    CLEAR = "nobody else has it"

    __hash__ = object.__hash__


class Action(Enum):
    """What a hub does about it; a method of the same name in `handover`."""

    PREPARE = "ask_peer"
    CANCEL = "cancel_peer"
    AGREE = "agree"
    CLOSE = "close"
    OPEN_AFTER = "open_after"
    OPEN_NEW = "open_new"
    FOLLOW = "follow"
    WITHDRAW = "withdraw"

    __hash__ = object.__hash__


_S, _E, _A = State, Event, Action

TABLE: dict[tuple[State, Event], tuple[State, tuple[Action, ...]]] = {
    (_S.OPEN, _E.HOME_ELSEWHERE): (_S.CLOSING, (_A.PREPARE,)),
    (_S.OPEN, _E.UNHEARD): (_S.REMOTE, (_A.FOLLOW,)),
    # Only after a crash: both had reason to open it. The one who asks will follow the one who has it.
    (_S.OPEN, _E.PREPARE): (_S.OPEN, (_A.AGREE,)),
    (_S.CLOSING, _E.HOME_HERE): (_S.OPEN, (_A.CANCEL,)),
    (_S.CLOSING, _E.HOME_SAME): (_S.CLOSING, (_A.PREPARE,)),
    (_S.CLOSING, _E.HOME_ELSEWHERE): (_S.CLOSING, (_A.CANCEL, _A.PREPARE)),
    (_S.CLOSING, _E.UNHEARD): (_S.CLOSING, (_A.CANCEL, _A.PREPARE)),
    (_S.CLOSING, _E.PREPARED): (_S.REMOTE, (_A.CLOSE,)),
    (_S.OPENING, _E.PREPARE): (_S.OPENING, (_A.AGREE,)),
    (_S.OPENING, _E.CLOSE): (_S.OPEN, (_A.OPEN_AFTER,)),
    (_S.OPENING, _E.CLEAR): (_S.OPEN, (_A.OPEN_NEW,)),
    (_S.OPENING, _E.HOME_ELSEWHERE): (_S.REMOTE, (_A.FOLLOW,)),
    (_S.OPENING, _E.UNHEARD): (_S.REMOTE, (_A.FOLLOW,)),
    (_S.OPENING, _E.CANCEL): (_S.OPENING, (_A.WITHDRAW,)),
    (_S.REMOTE, _E.HOME_HERE): (_S.OPENING, ()),
    (_S.REMOTE, _E.HOME_SAME): (_S.REMOTE, (_A.FOLLOW,)),
    (_S.REMOTE, _E.HOME_ELSEWHERE): (_S.REMOTE, (_A.FOLLOW,)),
    (_S.REMOTE, _E.UNHEARD): (_S.REMOTE, (_A.FOLLOW,)),
    (_S.REMOTE, _E.PREPARE): (_S.OPENING, (_A.AGREE,)),
}


class PublishRoute:
    """Where the messages of this hub's clients to one topic go. Owned by its trunk's Stream."""

    __slots__ = ("after", "is_due", "now", "target")

    def __init__(self) -> None:
        # The stream that messages went to last, and the one that they are to go to.
        self.now = TRUNK
        self.target = TRUNK
        # What the next message comes after, by stream, the latest last; and whether it has to say so.
        self.after: dict[bytes, tuple[int, int]] = {}
        self.is_due = False

    @property
    def is_plain(self) -> bool:
        """Whether messages go to the trunk as if there were nothing else."""
        return not (self.now or self.target or self.is_due)


class Stream(RelayMerge):
    """One topic at one hub, while there is more to know about it than that it is open here."""

    __slots__ = (
        "admission",
        "asked_version",
        "ending",
        "is_kept",
        "peer",
        "preparer",
        "relays_waiting",
        "since_version",
        "state",
        "suitor",
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
        # Where it lives, or is to live: another hub. None: here, or no hub is alive to have it.
        self.peer = peer
        # The version under which the last PREPARE was sent, or received.
        self.asked_version = 0
        # The version under which the topic was given to this hub: an older plan says nothing about it.
        self.since_version = 0
        # While opening: the hub that has asked us to take it, and the end it has told us.
        self.preparer: str | None = None
        self.ending: tuple[str, int, int] | None = None
        # A hub that asks us to take what we are giving away; answered once we know better.
        self.suitor: tuple[str, int] | None = None
        # On the way in. Counts the changes of where messages are sent to.
        self.term = 0
        self.admission = Admission(budget, topic.key)
        # On the way out. The number of the last ATTACH.
        self.ticket = 0
        # Whether it is followed though nobody may listen here by name: see Listening.is_kept.
        self.is_kept = False
        # Which stream of the topic this hub's own clients publish to; None: this one, the trunk, as long as there was
        # no other.
        self.way: PublishRoute | None = None
        # Who waits until the stream stands here: clients' subscriptions; other hubs, with the number of their ATTACH.
        self.waiters: list[Callable[[], None]] = []
        self.relays_waiting: dict[OutLink, int] = {}

    @property
    def position(self) -> tuple[int, int]:
        return self.topic.epoch, self.topic.n

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, so that an open topic needs no Stream."""
        is_plain = self.admission.is_empty and (self.way is None or self.way.is_plain)
        return is_plain and not (self.waiters or self.relays_waiting or self.suitor)

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten once nobody has listened or published for a while."""
        is_following = self.is_kept or self.source is not None or self.joining is not None
        return self.is_quiet and not is_following and self.state in (State.OPEN, State.REMOTE)

    @property
    def is_wanted(self) -> bool:
        """Whether anybody here, or behind this hub, listens to the topic by name."""
        topic = self.topic
        return bool(self.is_kept or topic.is_heard or topic.relays or self.waiters)

    @property
    def is_ready(self) -> bool:
        """Whether a subscriber that comes now misses nothing from now on."""
        return self.state.is_home or self.source is not None
