"""The hub without its sockets: sessions, topics, users, and the function that publishes.

Pure: time, timers and secret checking come from the shell, so the simulator runs the same code. All code runs in
callbacks of one event loop; nothing here blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from equipoise.access import Action, User, Users
from equipoise.hub.access.connection_limits import ConnectionLimits
from equipoise.hub.access.denials import RESERVED, denial, too_long
from equipoise.hub.access.quotas import Quotas, Resource, owner_of, topic_bytes
from equipoise.hub.access.reauthorization import certified_user, reauthorize_all
from equipoise.hub.access.unfinished_input import UnfinishedInput
from equipoise.hub.cluster.lease import Lease
from equipoise.hub.cluster.standalone import Standalone
from equipoise.hub.cluster.standstill import ALWAYS_AWAKE, Standstill
from equipoise.hub.content.filtering import Filtering
from equipoise.hub.data.backlog import Backlogs
from equipoise.hub.data.client_state import LINGER_S
from equipoise.hub.data.departures import Departures
from equipoise.hub.data.losses import Losses
from equipoise.hub.data.ports import NO_WIRE, Shell, Wire, discard
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.session import Session
from equipoise.hub.data.subscribe import reauthorize
from equipoise.hub.data.topic import compile_audience, deliver_in_stages, deliver_to_hubs
from equipoise.hub.data.topic_specs import TopicSpecs
from equipoise.hub.data.topics import LANE_PREFIX, Topic, TopicGc, TopicIndex
from equipoise.hub.data.turns import Turns
from equipoise.hub.locations.locations import Locations
from equipoise.hub.settings import HubSettings
from equipoise.hub.telemetry.gauges import LagSpikes
from equipoise.hub.telemetry.recorder import TelemetryRecorder
from equipoise.hub.telemetry.stats import Health, Stats
from equipoise.resp import RequestLimits
from equipoise.resp.replies import error, integer, payload_bytes
from equipoise.stream.position import Epochs

if TYPE_CHECKING:
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.session_host import Commands
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.logs.hub_logs import HubLogs

log = logging.getLogger("equipoise.hub")


class HubCore:
    """One hub's state. Owned by the shell, which calls `join`, `Session.receive` and `leave`."""

    def __init__(
        self,
        settings: HubSettings,
        users: Users,
        shell: Shell,
        commands: Callable[[HubCore], Commands],
    ) -> None:
        self.commands = commands(self)
        self.settings, self.limits = settings, settings.limits
        self.users, self.shell, self.now = users, shell, shell.now
        self.turns = Turns(shell)
        self.departures = Departures(self, self.turns)
        self.stats, self.health = Stats(), Health(settings.name)
        self.sessions: dict[int, Session] = {}
        # Sessions that are no longer served, but still have output to send.
        self._leaving: dict[Session, None] = {}
        # Called when the last connection is closed, if the shell waits for it.
        self.when_empty: Callable[[], object] | None = None
        # The latest connection of each smart client's link, by the link's id.
        self.links: dict[bytes, Session] = {}
        self._last_id, self.started_at = 0, shell.now()
        # The port that the hub listens on: the configured one until the listener is open.
        self.port = settings.port
        # A restart under the same name is a new incarnation: its epochs are greater than those of the previous one.
        self.epochs = Epochs(shell.wall_time)
        self.new_epoch, self.note_epoch = self.epochs.new, self.epochs.note
        self.incarnation = self.epochs.last
        self.quotas = Quotas(self.limits)
        self.index = self._new_index()
        self.cluster: OtherHubs = Standalone(settings.name)
        # None: the hub has no storage for logs.
        self.logs: HubLogs | None = None
        self.specs, self.filtering = TopicSpecs(), Filtering(self)
        # Commands read after this time were received after a standstill.
        self.awake_until = ALWAYS_AWAKE
        self.lease = Lease(shell, settings.membership.session_timeout_s, self.specs, lambda: self.awake_until)
        self.standstill, self.places = Standstill(self), Locations(self)
        self.metering = TelemetryRecorder(self)
        self.lag_spikes, self.losses = LagSpikes(), Losses()
        self.backlogs = Backlogs(
            self.limits,
            memory_bytes=shell.memory_bytes(),
            now=shell.now,
            call_later=shell.call_later,
            cut=self.cut_subscriber,
            touch=self.metering.touch,
        )
        self.admission = ConnectionLimits(self.limits, now=shell.now, call_later=shell.call_later)
        self.unfinished: UnfinishedInput[Session] = UnfinishedInput(self.limits, shell, self.cut)
        self._request_limits = self.limits.of_requests(is_authenticated=True)
        self._stranger_limits = self.limits.of_requests(is_authenticated=False)
        self.input_bytes_max, self.link_limits = self.limits.input_bytes_max, self.limits.of_links()
        self._topic_gc = TopicGc(lambda: self.index, self.turns, self.limits.topic_idle_s)

    def _new_index(self) -> TopicIndex:
        return TopicIndex(
            self.limits.topics_max,
            self.new_epoch,
            self.quotas,
            payload_bytes_max=self.limits.payload_bytes_max,
        )

    def request_limits(self, *, is_authenticated: bool) -> RequestLimits:
        """The limits of all authenticated connections, or of all unauthenticated ones: one shared object each."""
        return self._request_limits if is_authenticated else self._stranger_limits

    # --- sessions

    def open_session(self) -> Session:
        """A session without a connection yet."""
        self._last_id += 1
        return Session(self, self._last_id, self.users.anonymous)

    def join(
        self, session: Session, wire: Wire, certificate: Sequence[str] = (), *, is_served: bool = True
    ) -> None:
        """The session's connection is open. Unless `is_served`, the session waits for a call of `Session.proceed`.

        `certificate`: the common names in the client's certificate, if it presented one.
        """
        session.wire = wire
        session.write = wire.write
        session.certificate = certificate
        self.sessions[session.id] = session
        self.quotas.take(Resource.CONNECTIONS, owner_of(session.user))
        self.stats.connections += 1
        self.greet(session)
        if not is_served:
            self.stats.connections_paced += 1
            session.stand_by()

    def greet(self, session: Session) -> None:
        """Set the user of a new connection: by its certificate, else the anonymous user, else none.

        A connection without a user must authenticate within `unauthenticated_timeout_s`.
        """
        certified = certified_user(self, session)
        user = certified or self.users.anonymous
        self._count_for(session, user)
        if user is not None:
            session.log_in(user, is_certified=certified is not None)
            return
        session.log_out()
        self.expect_login(session)

    def expect_login(self, session: Session) -> None:
        """Disconnect the session unless it authenticates within `unauthenticated_timeout_s`."""
        session.cut_after(self.limits.unauthenticated_timeout_s, "no authentication in time")

    def log_in(self, session: Session, user: User) -> None:
        """The client has authenticated. Subscriptions that the user has no permission for end."""
        self._count_for(session, user)
        session.log_in(user)
        if session.subscriptions is not None:
            self.stats.revoked += reauthorize(self, session)

    def _count_for(self, session: Session, user: User | None) -> None:
        if session.id in self.sessions:
            self.quotas.pass_on(session.user, user, subscriptions=session.subscriptions_held)

    def leave(self, session: Session) -> None:
        """Stop serving the session; send its pending output, then close the connection."""
        if session.is_closing:
            return
        session.is_closing = True
        self.backlogs.depart(session)
        self._forget(session, is_slow=False)
        session.stop_timer()
        session.timer = self.shell.call_later(LINGER_S, session.wire.abort)
        self._leaving[session] = None
        session.wire.close()

    def cut(self, session: Session, reason: str, *, is_slow: bool = False) -> None:
        """Close the connection at once, without an error reply, as Redis does."""
        if session.is_closing:
            return
        log.warning("cut client id=%d addr=%s: %s", session.id, session.address, reason)
        session.is_closing = True
        self._forget(session, is_slow=is_slow)
        session.wire.abort()

    def follow(self, session: Session, link: bytes) -> None:
        """The session is the latest connection of its client's link: cut the link's previous connection, if it is open.

        The client has abandoned the previous connection and reported its unacknowledged messages as uncertain. Messages
        that a slow network still delivers on it would be published after newer ones.
        """
        former = self.links.get(link)
        if former is not None and former is not session:
            self.cut(former, "its client has reconnected")
        self._unlink(session)
        session.link = link
        self.links[link] = session

    def _unlink(self, session: Session) -> None:
        if session.link is not None:
            self.links.pop(session.link, None)
            session.link = None

    def lost(self, session: Session) -> None:
        """The session's connection is closed, by either side."""
        if not session.is_closing:
            session.is_closing = True
            self._forget(session, is_slow=False)
        self._leaving.pop(session, None)
        self.backlogs.lost(session)
        session.stop_timer()
        session.wire = NO_WIRE

    def release(self, address: str, serve: Callable[[], None]) -> None:
        """A connection from the address has closed. `serve` identifies it if it was still waiting to be served."""
        self.admission.release(address, serve)
        if not self.admission.count and self.when_empty is not None:
            self.when_empty()

    def abort_leaving(self) -> None:
        """Abort the connections that still have output to send."""
        for session in list(self._leaving):
            session.wire.abort()

    def _forget(self, session: Session, *, is_slow: bool) -> None:
        session.write = discard
        session.forget_replies()
        self.unfinished.forget(session)
        self._unlink(session)
        self.backlogs.discard(session, is_cut=is_slow)
        self.departures.forget(session)
        self.places.forget(session)
        if self.sessions.pop(session.id, None) is not None:
            self.quotas.give_back(Resource.CONNECTIONS, owner_of(session.user))

    def cut_subscriber(self, subscriber: Subscriber, reason: str, *, is_slow: bool = True) -> None:
        assert isinstance(subscriber, Session), "only sessions subscribe"
        self.cut(subscriber, reason, is_slow=is_slow)

    # --- commands

    def refuse(self, text: str, *, times: int = 1) -> bytes:
        """The error reply; counts it `times` times."""
        self.stats.errors += times
        self.stats.denied += times if text.startswith("NOPERM") else 0
        return error(text)

    # --- publishing

    def topic_to_publish(self, session: Session, name: bytes) -> Topic | str:
        """The topic, created if it does not exist; or the error text, if the session may not publish to it."""
        topic = self.index.topics.get(name)
        if self.users.is_open:
            if topic is not None and session.redirected is None:
                if topic.publisher != session.id:
                    self.metering.published_by(topic, session)
                return topic
        elif len(name) <= self.limits.topic_bytes_max and not session.may(Action.PUBLISH, name):
            return denial(session, Action.PUBLISH, name)
        found = topic or self.new_topic(session, name)
        if isinstance(found, Topic):
            if found.publisher != session.id:
                self.metering.published_by(found, session)
            if session.redirected is not None:
                self.cluster.redirects.published(session, found)
        return found

    def new_topic(self, session: Session, name: bytes, *, is_shard: bool = False) -> Topic | str:
        if len(name) > self.limits.topic_bytes_max:
            return too_long(self)
        if name.startswith(LANE_PREFIX):
            return RESERVED
        if not session.may(Action.CREATE, name):
            return denial(session, Action.CREATE, name)
        owner, size = owner_of(session.user), topic_bytes(name)
        if problem := self.quotas.over_share(Resource.TOPIC_BYTES, owner, size):
            return problem
        make = self.index.create_shard if is_shard else self.make_topic
        return make(name, owner) or self.quotas.no_room(size)

    def make_topic(self, name: bytes, owner: str = "") -> Topic | None:
        """The topic, created if it does not exist; None if the hub has no room because all topics are in use."""
        topic = self.index.topics.get(name)
        if topic is not None:
            return topic
        topic = self.index.create(name, owner=owner)
        if topic is not None:
            self.cluster.adopt(topic)
            if self.logs is not None and self.logs.durable is not None:
                self.logs.durable.adopt(topic)
            self._topic_gc.begin()
        return topic

    def audience_of(self, topic: Topic) -> Audience:
        audience = topic.audience
        if audience is None or audience.version != self.index.version:
            self.metering.touch(topic)
            if audience is None or self.index.is_concerned(topic, audience.right_for):
                audience = topic.audience = compile_audience(topic, self.index)
            else:
                audience.version = self.index.version
        return audience

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client: the reply to each message, empty where `own_replies` has them, or one to all, later."""
        if topic.is_gated:
            if topic.is_watched:
                self.metering.arrivals.note(topic, payloads)
            if topic.limit is not None:
                return self.cluster.limits.submit(topic, payloads)
            if topic.log is not None:
                return topic.log.publish(payloads)
        if topic.stream is None:
            receivers = self.publish(topic, payloads)
            audience = topic.audience
            # None: a subscriber was disconnected by the delivery.
            return integer(receivers) if audience is None else audience.reply
        return self.cluster.submit(topic, payloads)

    def publish(self, topic: Topic, payloads: Sequence[bytes], first: int = 0) -> int:
        """Deliver a run of messages; return the number of receivers of each message.

        `first`: position of the first message, if another hub has numbered (and counted) the run; 0: number it here.

        The hot path: per delivery one call of a transport's `write`, per message nothing but its share of encoding.
        One function for both, since a call of another costs a publish to one subscriber 5 %. Keep it that way.
        """
        audience = topic.audience
        if audience is None or audience.version != self.index.version:
            audience = self.audience_of(topic)
        count = len(payloads)
        if first:
            topic.n = first - 1 + count
        else:
            first = topic.n + 1
            topic.n += count
            topic.published += count
            topic.bytes_in += len(payloads[0]) if count == 1 else payload_bytes(payloads)
        is_plain = audience.is_plain
        if not is_plain:
            # Other hubs first: they have subscribers of their own to write to.
            deliver_to_hubs(topic, audience, first, payloads)
        backlogs = self.backlogs
        # Read by `Backlog.hold`, which replaces `write` for subscribers whose transport is full.
        backlogs.topic = topic
        backlogs.messages = count
        for encode, sessions in audience.groups:
            data = encode(first, payloads)
            topic.bytes_out += len(data) * len(sessions)
            for session in sessions:
                write = session.write
                write(data)
        if not is_plain and audience.stages:
            deliver_in_stages(backlogs, topic, audience, first, payloads)
        backlogs.topic = None
        receivers = audience.receivers
        topic.delivered += receivers * count
        return receivers

    def reload_users(self, users: Users) -> None:
        """Apply the new access rules to all connected clients at once."""
        reauthorize_all(self, users)

    # --- incarnations

    def begin_anew(self) -> None:
        """Begin a new incarnation: close all sessions; drop all topics and patterns."""
        self.cluster.close()
        self.cluster = Standalone(self.settings.name)
        for session in list(self.sessions.values()):
            self.cut(session, "the hub restarts")
        self.departures.finish()
        self.incarnation = self.new_epoch()
        self.quotas = Quotas(self.limits)
        self.index = self._new_index()
        self.places.renewing.clear()
        self.metering.begin_anew()

    def close(self) -> None:
        """End all sessions, links and timers."""
        if self.logs is not None:
            self.logs.close()
        self.cluster.close()
        timed = (self.admission, self.lease, self.standstill, self._topic_gc, self.turns.shares)
        for part in (*timed, self.places.probing, self.metering):
            part.stop()
        for session in list(self.sessions.values()):
            self.leave(session)
