"""Redirect smart clients to the homes of their topics.

A client that has requested it (EQ.LINK name ROUTES) receives the push
    eq.home topic :version mode address [address …]
when it publishes or subscribes at a hub that is not the topic's home, and when the placement of a topic that it
subscribes to has changed: then at once (`redirect_mode = "eager"`, ePulsar), or at the topic's next message (`"lazy"`,
Dynamoth). Subscribers are redirected one after another, because each reconnects and subscribes at the new home: slowly
at first, then up to `redirects_per_s` per second (`redirect_pace.py`); a quarter of that while the loop of this hub is
late, that is, while the machine has no idle core. A client may ignore a redirect: this hub relays for as long as the
client stays. A client that uses a topic again after a while is redirected again, because clients forget routes, too.

Always true: the redirects remembered per session are bounded; forgetting one only means one more redirect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from equipoise.hub.cluster.redirect_pace import RedirectPace
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

# Topics remembered for one session, at about 200 B each; the oldest is evicted first.
REMEMBERED_MAX = 1_000
# Seconds after which a client that still publishes here is redirected again: it forgot, or could not connect.
AGAIN_S = 10.0
# Interval in seconds at which waiting redirects are sent, and topics are checked for their next message.
TURN_S = 0.01
# A turn that begins more than this late, in seconds, shows a busy machine, where redirects delay messages.
LATE_S = 0.005
# Topics without subscribers that may be kept before a clean-up.
STEP = 1_000


class TopicRedirects:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort, settings: ClusterSettings) -> None:
        self._cluster = cluster
        self._is_lazy = settings.redirect_mode == "lazy"
        self._pace = RedirectPace(settings.redirects_per_s)
        # Redirects that this turn may send; then the unused rest. The first one may be sent at once.
        self._allowance = 1.0
        # Topics with smart subscribers, and the placement of their last redirect.
        self._heard: dict[Topic, Placement | None] = {}
        # Their number after the last clean-up.
        self._heard_before = 0
        # Topics whose placement has changed: those that wait for their next message, with the number of messages
        # delivered so far; and those whose subscribers are being redirected.
        self._quiet: dict[Topic, int] = {}
        self._due: dict[Topic, None] = {}
        self._telling: Iterator[Session] = iter(())
        self._of: Topic | None = None
        self._timer: Timer | None = None
        # Time at which the next turn is due.
        self._due_at = 0.0
        # Number of redirects sent.
        self.count = 0
        self.seats = Seats(cluster)
        # Content topics whose publishers this hub counts, as their head; and the function that counts them.
        self.counted: Collection[bytes] = ()
        self.published_at_head: Callable[[Session, bytes], object] = lambda session, topic: None

    # Activity of clients.

    def published(self, session: Session, topic: Topic) -> None:
        """A smart client publishes here: redirect it if the topic's home is another hub."""
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

    # Changes of placement.

    def look(self, topic: Topic) -> None:
        """The plan or the topic's state here has changed: redirect its subscribers if its placement has changed."""
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
        """Remove topics without subscribers."""
        for topic in [topic for topic in self._heard if not topic.members and not _filtered(topic)]:
            del self._heard[topic]
            self._quiet.pop(topic, None)
        self._heard_before = len(self._heard)

    def close(self) -> None:
        self.seats.close()
        if self._timer is not None:
            self._timer.cancel()

    # Sending redirects.

    def _better(self, topic: Topic) -> Placement | None:
        """The placement for a redirect of smart clients; None if the topic is here, or its handover is not done."""
        placement = self._cluster.router.placement(topic.name)
        if len(placement.homes) > 1:
            if placement.parents:
                # Clients publish at the first home and subscribe at edges; they do not use the heads between.
                return Placement((placement.homes[0], *placement.edges), placement.mode)
            return placement
        if topic.is_home or not placement.homes or placement.homes[0] == self._cluster.name:
            return None
        return placement

    def _tell(self, session: Session, topic: Topic, *, is_asked: bool) -> bool:
        """Redirect a session if needed; return whether a redirect was sent."""
        sent = session.redirected
        if sent is None or session.proto != 3 or session.is_closing:
            return False
        known = sent.get(topic.name)
        placement = self._better(topic)
        if placement is None:
            if known is None:
                return False
            # The client was redirected to other hubs before; now this hub is the home.
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
        """The push, with TLS or plain addresses as the client's connection; None if a home has none."""
        router = self._cluster.router
        addresses = [router.address(hub, is_tls=is_tls) for hub in placement.homes]
        if None in addresses:
            return None
        facts = [bulk(b"eq.home"), bulk(topic.name), integer(router.version), bulk(placement.mode.encode())]
        return push([*facts, *(bulk(address) for address in addresses if address is not None)], 3)

    def _turn(self) -> None:
        """Send the next redirects; and check which topics have a new message."""
        self._timer = None
        for topic, delivered in list(self._quiet.items()):
            if _delivered(topic) != delivered:
                del self._quiet[topic]
                self._due[topic] = None
        if self._of is not None or self._due:
            self._cluster.core.shell.turns.turn(self._send)
        if self._of is not None or self._due or self._quiet:
            self._schedule(TURN_S)

    def _send(self) -> None:
        now = self._cluster.core.now()
        self._allowance += TURN_S * self._pace.per_s(now, is_late=now - self._due_at > LATE_S)
        while self._allowance >= 1 and (session := self._next()) is not None:
            assert self._of is not None, "a session is redirected for a topic"
            self._allowance -= self._tell(session, self._of, is_asked=False)
        # An unused allowance is not accumulated.
        self._allowance = min(self._allowance, 1.0)

    def _schedule(self, delay_s: float) -> None:
        self._due_at = self._cluster.core.now() + delay_s
        self._timer = self._cluster.core.shell.call_later(delay_s, self._turn)

    def _next(self) -> Session | None:
        """The next subscriber of a topic whose placement has changed."""
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
    """The smart clients that subscribe to the topic by filter."""
    content = topic.content
    return () if content is None or content.spans is None else content.spans.sessions


def _delivered(topic: Topic) -> int:
    """Number of messages delivered to subscribers here, over all streams of the topic."""
    lanes = () if topic.beside is None else topic.beside.lanes.values()
    return topic.delivered + sum(lane.delivered for lane in lanes)
