"""Redirect smart clients to the homes of their topics.

A client that has asked for it (EQ.LINK name ROUTES) is pushed

    eq.home topic :version mode address [address …]

when it publishes or subscribes where that is not, and when the place of a topic that it subscribes to has changed: then
at once (`redirect_mode = "eager"`, ePulsar), or once the topic has been used again (`"lazy"`, Dynamoth). Many
subscribers are redirected one after another, `redirects_per_s` in a second: each of them comes to the new home and
subscribes there. While the loop of this hub is late, which it is when the machine has no core left, a quarter of them.

A client need not obey: a hub goes on relaying for as long as a client stays, however long ago the topic has moved.
Clients that come back with a topic after a while are redirected anew, since they forget, too.

Always true: what is remembered of a session is bounded; forgetting it only means one more redirect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from equipoise.hub.cluster.seats import Seats
from equipoise.hub.data.other_hubs import SentRedirect
from equipoise.hub.data.session import Session
from equipoise.model import Mode, Placement
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.cluster.settings import ClusterSettings
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topics import Topic

__all__ = ["TopicRedirects"]

# Topics remembered for one session, at some 200 B each; the oldest is forgotten first.
REMEMBERED_MAX = 1_000
# A client that publishes here in spite of a redirect gets it again after this: it forgot, or could not go.
AGAIN_S = 10.0
# How often waiting redirects are sent, and how often a topic is looked at for its next message.
TURN_S = 0.01
# A turn that begins later than this after its time finds a busy machine, where redirects make messages wait: each costs
# the client half a millisecond, and two hubs a tenth.
LATE_S = 0.005
LATE_RATIO = 0.25
# Topics that are remembered without need.
STEP = 1_000


class TopicRedirects:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort, settings: ClusterSettings) -> None:
        self._cluster = cluster
        self._is_lazy = settings.redirect_mode == "lazy"
        # Redirects in one turn; and what is left of the last one, a fraction of a redirect.
        self._turn_max = settings.redirects_per_s * TURN_S
        self._allowance = 0.0
        # Topics with smart subscribers, and where their subscribers were last to be sent.
        self._heard: dict[Topic, Placement | None] = {}
        # How many there were when those without subscribers were last left out.
        self._heard_before = 0
        # Topics whose place has changed: those that wait for their next message, with the number of those delivered so
        # far; and those whose subscribers are being redirected.
        self._quiet: dict[Topic, int] = {}
        self._due: dict[Topic, None] = {}
        self._telling: Iterator[Session] = iter(())
        self._of: Topic | None = None
        self._timer: Timer | None = None
        # When the next turn is to begin.
        self._due_at = 0.0
        # Pushes so far.
        self.count = 0
        self.seats = Seats(cluster)
        # Content topics of which this hub counts the publishers, as their head; and what counts them.
        self.counted: Collection[bytes] = ()
        self.published_at_head: Callable[[Session, bytes], object] = lambda session, topic: None

    # What clients do.

    def published(self, session: Session, topic: Topic) -> None:
        """A smart client publishes here: tell it if it should do so elsewhere."""
        if topic.limit is not None:
            self.seats.published(session, topic)
        if topic.name in self.counted:
            self.published_at_head(session, topic.name)
        if topic.stream is None:
            entry = self._cluster.router.routing.plan.entries.get(topic.name)
            if entry is None or entry.mode is Mode.SINGLE:
                return
        self._tell(session, topic, is_asked=True)

    def subscribed(self, session: Session, names: list[bytes]) -> None:
        """A smart client has subscribed here to these topics, by name or by filter."""
        topics = self._cluster.core.index.topics
        for name in names:
            topic = topics.get(name)
            if topic is not None and (session in topic.members or session in _filtered(topic)):
                self._heard.setdefault(topic, self._better(topic))
                self._tell(session, topic, is_asked=True)
        if len(self._heard) > 2 * self._heard_before + STEP:
            self._tidy()

    # What changes.

    def look(self, topic: Topic) -> None:
        """The view has changed, or the topic's state here: tell its subscribers if they should be elsewhere now."""
        if topic not in self._heard:
            return
        placement = self._better(topic)
        if placement == self._heard[topic]:
            return
        self._heard[topic] = placement
        if self._is_lazy:
            self._quiet[topic] = _delivered(topic)
        else:
            self._due[topic] = None
        if self._timer is None:
            self._schedule(0.0)

    def _tidy(self) -> None:
        """Forget topics without subscribers."""
        for topic in [topic for topic in self._heard if not topic.members and not _filtered(topic)]:
            del self._heard[topic]
            self._quiet.pop(topic, None)
        self._heard_before = len(self._heard)

    def close(self) -> None:
        self.seats.close()
        if self._timer is not None:
            self._timer.cancel()

    # Inside.

    def _better(self, topic: Topic) -> Placement | None:
        """Where a smart client finds the topic; None if that is here, or will be elsewhere only after a handover."""
        placement = self._cluster.router.placement(topic.name)
        if len(placement.homes) > 1:
            if placement.parents:
                # Clients publish at the first home and subscribe at edges: the heads between are none of theirs.
                return Placement((placement.homes[0], *placement.edges), placement.mode)
            return placement
        if topic.is_home or not placement.homes or placement.homes[0] == self._cluster.name:
            return None
        return placement

    def _tell(self, session: Session, topic: Topic, *, is_asked: bool) -> bool:
        """Whether there was anything to tell."""
        sent = session.redirected
        if sent is None or session.proto != 3 or session.is_closing:
            return False
        known = sent.get(topic.name)
        placement = self._better(topic)
        if placement is None:
            if known is None:
                return False
            # It was sent away, or over several hubs: now it is right here.
            placement = Placement((self._cluster.name,))
        now = self._cluster.core.now()
        if known is not None and known.placement == placement and not (is_asked and now - known.at > AGAIN_S):
            return False
        frame = self._frame(topic, placement, is_tls=session.is_tls)
        if frame is None:
            return False
        sent.pop(topic.name, None)
        if len(sent) >= REMEMBERED_MAX:
            del sent[next(iter(sent))]
        sent[topic.name] = SentRedirect(placement, now)
        self.count += 1
        session.write(frame)
        return True

    def _frame(self, topic: Topic, placement: Placement, *, is_tls: bool) -> bytes | None:
        """With the addresses of the kind that the client uses; None if a home has none."""
        router = self._cluster.router
        addresses = [router.address(hub, is_tls=is_tls) for hub in placement.homes]
        if None in addresses:
            return None
        facts = [bulk(b"eq.home"), bulk(topic.name), integer(router.version), bulk(placement.mode.encode())]
        return push([*facts, *(bulk(address) for address in addresses if address is not None)], 3)

    def _turn(self) -> None:
        """Tell the next few; and look which topics have been used again."""
        self._timer = None
        for topic, delivered in list(self._quiet.items()):
            if _delivered(topic) != delivered:
                del self._quiet[topic]
                self._due[topic] = None
        is_late = self._cluster.core.now() - self._due_at > LATE_S
        self._allowance += self._turn_max * (LATE_RATIO if is_late else 1.0)
        while self._allowance >= 1 and (session := self._next()) is not None:
            assert self._of is not None, "a session is redirected for a topic"
            self._allowance -= self._tell(session, self._of, is_asked=False)
        # What was not needed is not saved up.
        self._allowance = min(self._allowance, 1.0)
        if self._of is not None or self._due or self._quiet:
            self._schedule(TURN_S)

    def _schedule(self, delay_s: float) -> None:
        self._due_at = self._cluster.core.now() + delay_s
        self._timer = self._cluster.core.shell.call_later(delay_s, self._turn)

    def _next(self) -> Session | None:
        """The next subscriber of a topic whose place has changed."""
        while True:
            for session in self._telling:
                return session
            if not self._due:
                self._of = None
                return None
            self._of = next(iter(self._due))
            del self._due[self._of]
            by_name = [
                session
                for session, kinds in self._of.members.items()
                if any(kind.is_by_name for kind in kinds)
            ]
            smart = dict.fromkeys((*by_name, *_filtered(self._of)))
            self._telling = iter([session for session in smart if isinstance(session, Session)])


def _filtered(topic: Topic) -> Collection[Subscriber]:
    """The smart clients that get what a filter matches."""
    content = topic.content
    return () if content is None or content.spans is None else content.spans.sessions


def _delivered(topic: Topic) -> int:
    """Messages written to subscribers here, whichever stream they came in."""
    lanes = () if topic.beside is None else topic.beside.lanes.values()
    return topic.delivered + sum(lane.delivered for lane in lanes)
