"""Topics with a durable spec: channel and log are one stream.

PUBLISH, EQ.PUBLISH and XADD append to the log and are acknowledged after the commit. Subscribers receive committed
entries only, in the order of the log. A message of PUBLISH is an entry with the one field `payload`. Of an entry of
XADD subscribers receive the value of that field if it is the only one, else all fields and values as an array in RESP.

The position of a message is the number of its entry, at every hub, and never changes. The home of the channel sends
entries when its log commits them; after it has opened the log, in a move or after a crash, it first sends the entries
that its subscribers have not received. A hub that follows the topic and misses numbers, whatever the cause, requests
the messages after its last one from the owner of the log, and delivers no others until they have arrived.

Always true: a hub delivers each number to its subscribers once, in ascending order, without a gap within the retained
part of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.reply import REPLY_S, Reply
from equipoise.hub.logs.hub_logs import for_each
from equipoise.hub.logs.live_log import LogStage
from equipoise.hub.logs.log_request import (
    PUBLISH,
    PUBLISH_NUMBERED,
    PUBLISH_POSITIONED,
    SINCE,
    LogRequest,
    unpack_since,
)
from equipoise.log.append import add_entry
from equipoise.log.entries import body_of, payload_body, payload_of
from equipoise.log.numbered import add_numbered
from equipoise.log.records import EntryAdded
from equipoise.stream.position import DURABLE_EPOCH
from equipoise.stream.submission import NOWHERE

if TYPE_CHECKING:
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.losses import Losses
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topic_specs import TopicSpecs
    from equipoise.hub.data.topics import Topic, TopicIndex
    from equipoise.hub.logs.hub_logs import HubLogs
    from equipoise.hub.logs.live_log import LiveLog
    from equipoise.log.topic_log import TopicLog

__all__ = ["DurableCore", "DurableTopic"]

# How long subscribers wait for the topic's position from the log, in seconds; then they begin without it.
PATIENCE_S = 2.0
# The delay, in seconds, before missing messages are requested again, or the log is opened again.
_RETRY_S = 0.1


class DurableCore(Protocol):
    """The parts of the hub that durable topics use."""

    @property
    def specs(self) -> TopicSpecs: ...
    @property
    def cluster(self) -> OtherHubs: ...
    @property
    def index(self) -> TopicIndex: ...
    @property
    def losses(self) -> Losses: ...
    @property
    def links(self) -> dict[bytes, Session]: ...
    def publish(self, topic: Topic, payloads: Sequence[bytes], first: int = 0) -> int: ...
    def audience_of(self, topic: Topic) -> Audience: ...
    def make_topic(self, name: bytes) -> Topic | None: ...
    def new_epoch(self) -> int: ...
    def cut_subscriber(self, subscriber: Subscriber, reason: str, *, is_slow: bool = True) -> None: ...


class DurableTopic:
    """The channel of one durable topic, on its log: `Topic.log`."""

    def __init__(self, core: DurableCore, topic: Topic, logs: HubLogs) -> None:
        self._core = core
        self._topic = topic
        self._logs = logs
        # Whether `Topic.n` is the number of the last message that subscribers here have received, or need not receive.
        self.is_numbered = False
        # Called once `is_numbered` is true, or the timeout is over: of subscribers that need the position.
        self.waiters: list[Callable[[], None]] = []
        self._timeout: Timer | None = None
        self._is_overdue = False
        # Whether `open_log` will be called soon.
        self._is_opening = False
        # The number of the last message that subscribers here were sent, whether the topic is numbered or not.
        self._last = 0
        # Whether missing messages have been requested, and the highest number received meanwhile.
        self._is_reading = False
        self._highest = 0

    # --- publishing

    def publish(self, payloads: Sequence[bytes]) -> bytes | Reply:
        """Append the messages; the replies to all of them, once they are committed."""
        name, logs = self._topic.name, self._logs
        if logs.elsewhere is None:
            outcome = self.publish_here(logs.of(name), payloads)
        else:
            outcome = logs.elsewhere.submit(name, LogRequest(PUBLISH, [b"publish", name, *payloads]))
        return outcome if len(payloads) == 1 else for_each(outcome, len(payloads))

    def publish_here(self, live: LiveLog, payloads: Sequence[bytes]) -> bytes | Reply:
        def work(log: TopicLog) -> bytes:
            self._add(log, payloads)
            # Counted at all hubs, up to one second old, as for every topic.
            return self._core.audience_of(self._topic).common_reply * len(payloads)

        return live.submit(work, sum(map(len, payloads)))

    def publish_positioned(
        self, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> bytes | Reply:
        """`receipt` makes the reply from epoch, position and receivers, once the messages are committed."""
        if self._logs.elsewhere is None:
            return self.publish_positioned_here(self._logs.of(self._topic.name), payloads, receipt)
        name = self._topic.name
        request = LogRequest(PUBLISH_POSITIONED, [b"eq.publish", name, *payloads])
        return self._logs.elsewhere.submit(name, request)

    def publish_positioned_here(
        self, live: LiveLog, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> bytes | Reply:
        def work(log: TopicLog) -> bytes:
            self._add(log, payloads)
            receivers = self._core.audience_of(self._topic).receivers
            return receipt(DURABLE_EPOCH, log.entries.number, receivers)

        return live.submit(work, sum(map(len, payloads)))

    def publish_numbered(self, words: Sequence[bytes]) -> bytes | Reply:
        """`words`: publisher, run, number of the first message, messages. Messages sent again are stored once."""
        name = self._topic.name
        return self._logs.submit(name, LogRequest(PUBLISH_NUMBERED, [b"eq.append", name, *words]))

    def publish_numbered_here(self, live: LiveLog, words: Sequence[bytes]) -> bytes | Reply:
        def work(log: TopicLog) -> bytes:
            added = add_numbered(log, words, self._logs.now_ms())
            return added.receipt(self._core.audience_of(self._topic).receivers)

        return live.submit(work, sum(map(len, words)))

    def take_in(self, payloads: Sequence[bytes], done: Callable[[tuple[int, int]], object]) -> None:
        """Append the messages of a hub without logs; `done` with a position once committed, NOWHERE if they are not.

        Such a hub sends some of them again when their home fails: they are stored at least once.
        """

        def acknowledge() -> None:
            reply = outcome if isinstance(outcome, bytes) else b"".join(outcome.pieces or ())
            done(NOWHERE if reply[:1] in (b"-", b"") else (self._topic.epoch, self._topic.n))

        outcome = self.publish(payloads) if payloads else b""
        if isinstance(outcome, Reply) and outcome.pieces is None:
            outcome.owe(acknowledge, 0.0, is_muted=False)
        else:
            acknowledge()

    def _add(self, log: TopicLog, payloads: Sequence[bytes]) -> None:
        now_ms = self._logs.now_ms()
        for payload in payloads:
            add_entry(log, payload_body(payload), now_ms)

    # --- the home, which sends the entries of its log

    def deliver(self, live: LiveLog, added: Sequence[EntryAdded]) -> None:
        """Send these entries, the last that are committed, to subscribers if the channel's home is here."""
        topic = self._topic
        _note_sent(live, live.committed_number - len(added))
        if topic.n + len(added) == live.committed_number and topic.is_home and self.is_numbered:
            self._publish([payload_of(entry.body) for entry in added])
        else:
            self.align(live)

    def align(self, live: LiveLog) -> None:
        """Send the committed entries that subscribers have not received: the channel catches up with the log."""
        topic, last = self._topic, live.committed_number
        if live.stage is not LogStage.OPEN:
            return
        _note_sent(live, last)
        if not topic.is_home:
            return
        if not self.is_numbered:
            topic.jump(topic.epoch, live.sent_number)
            self._number()
        if topic.n < last:
            found = [
                (n, payload_of(body_of(piece))) for n, piece in live.log.entries.behind(topic.n) if n <= last
            ]
            self._deliver_found(found, last)
        live.sent_number = topic.n
        self._logs.filled(topic)

    def take_over(self, end: int) -> int:
        """Become the channel's home, after number `end` of the former home (0: unknown). Returns the last number.

        Later entries of the log are sent once it is open here.
        """
        self._cancel_timeout()
        self._is_overdue = False
        if not self._topic.has_followers:
            # The number is outdated: of the time when this hub last followed the topic.
            self.is_numbered = False
        if not self.is_numbered and end:
            self._topic.n = end
            self._number()
        if self.is_numbered:
            self.home_lost()
        elif self.waiters:
            self._start_timeout()
        self._open_later(0)
        return self._topic.n

    def home_lost(self) -> None:
        """The log may have entries that were not delivered here: new pattern subscribers wait until they are."""
        self._logs.await_fill(self._topic, self, PATIENCE_S)

    def open_log(self) -> None:
        """Open the log, if this hub should own it and subscribers may miss messages of it."""
        topic = self._topic
        self._is_opening = False
        if topic.log is self and topic.is_home and (self.waiters or self._core.audience_of(topic).is_heard):
            live = self._logs.open_here(topic.name)
            if live is None or live.is_sealing:
                # The log is moving to another hub, or will be: check later whether the channel moved there, too.
                self._open_later(_RETRY_S)
            else:
                self.align(live)

    def _open_later(self, delay_s: float) -> None:
        if not self._is_opening:
            self._is_opening = True
            self._logs.call_later(delay_s, self.open_log)

    # --- hubs that follow the topic

    def relay(self, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        """Another hub sent messages, the first with number `first`; without any: the next one has that number."""
        topic = self._topic
        if epoch > topic.epoch:
            topic.jump(epoch, topic.n)
        if not self.is_numbered or (first - 1 > topic.n and not topic.has_followers):
            # The next home may send again what this hub has from the former one.
            topic.jump(topic.epoch, max(first - 1, self._last))
            self._number()
        if (skip := topic.n + 1 - first) > 0:
            first, payloads = first + skip, payloads[skip:]
        last = first - 1 + len(payloads)
        if self._is_reading or first > topic.n + 1:
            self._highest = max(self._highest, last)
            self._read()
        elif payloads:
            self._publish(payloads, first)
            self._logs.filled(topic)

    def _read(self) -> None:
        """Request the missing messages from the owner of the log."""
        if self._is_reading:
            return
        self._is_reading = True
        name = self._topic.name
        outcome = self._logs.submit(name, LogRequest(SINCE, [b"eq.since", name, b"%d" % self._topic.n]))
        if isinstance(outcome, bytes):
            self._logs.call_later(0, lambda: self._receive_missing(outcome))
            return
        outcome.owe(lambda: self._receive_missing(b"".join(outcome.pieces or ())), 0.0, is_muted=False)
        self._logs.call_later(REPLY_S, lambda: outcome.expire() if outcome.is_wanted else None)

    def _receive_missing(self, reply: bytes) -> None:
        self._is_reading = False
        topic, found = self._topic, unpack_since(reply)
        if topic.log is not self:
            return
        if topic.is_home:
            self.open_log()
            return
        if found is not None:
            self._deliver_found([each for each in found.messages if each[0] > topic.n], found.reaches)
        if topic.n < self._highest and topic.has_followers:
            if found is None:
                self._is_reading = True
                self._logs.call_later(_RETRY_S, self._read_again)
            else:
                self._read()
        elif topic.stream is not None:
            self._logs.filled(topic)
            self._core.cluster.caught_up(topic.stream)

    def _read_again(self) -> None:
        self._is_reading = False
        if self._topic.log is self and not self._topic.is_home:
            self._read()

    def _deliver_found(self, messages: Sequence[tuple[int, bytes]], reaches: int) -> None:
        """Deliver these messages, with their numbers; other numbers up to `reaches` no longer exist."""
        run = list[bytes]()
        for i, (n, payload) in enumerate(messages):
            run.append(payload)
            if i + 1 == len(messages) or messages[i + 1][0] != n + 1:
                self._skip_to(n - len(run))
                self._publish(run, n + 1 - len(run))
                run = []
        self._skip_to(reaches)

    def _publish(self, payloads: Sequence[bytes], first: int = 0) -> None:
        """Send messages of the log to subscribers, the first with number `first`; 0: the next number."""
        topic = self._topic
        self._core.publish(topic, payloads, first)
        self._last = topic.n
        # Also for messages that another hub sent: this hub may have opened the log before, and may become the home.
        if (live := self._logs.by_name.get(topic.name)) is not None:
            live.sent_number = topic.n

    def _skip_to(self, n: int) -> None:
        """The entries up to number `n` were trimmed or deleted: count them as lost for subscribers."""
        topic = self._topic
        if n > topic.n:
            if topic.has_subscribers:
                self._core.losses.count(topic.name, n - topic.n)
            topic.jump(topic.epoch, n)

    # --- subscribers that need the position

    @property
    def may_begin(self) -> bool:
        """Whether a subscriber may begin, with the position if it is known; else `waiters` are called when it may."""
        is_known = self.is_numbered or self._is_overdue
        if not is_known:
            self._open_later(0)
            self._start_timeout()
        return is_known

    @property
    def may_subscribe(self) -> bool:
        """The same for a client of the home, which also waits until the home has sent the entries of its log.

        A client that reconnects from the former home may have received these entries: it must not receive them twice.
        """
        if not self.may_begin:
            return False
        if self._topic in self._logs.unfilled:
            self._open_later(0)
            return False
        return True

    def _number(self) -> None:
        self.is_numbered = True
        self._cancel_timeout()
        self.wake()

    def _start_timeout(self) -> None:
        if self._timeout is None:
            self._timeout = self._logs.call_later(PATIENCE_S, self._time_out)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _time_out(self) -> None:
        self._timeout = None
        self._is_overdue = True
        self.wake()

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for wake in waiters:
            wake()


def _note_sent(live: LiveLog, committed: int) -> None:
    """No hub knows which entries of the log were sent: begin behind these.

    If it is known, the entries behind are sent once the channel is open at the hub of the log, which may be a later
    owner: pattern subscribers have no position, and receive them from there only.
    """
    if live.sent_number < 0:
        live.sent_number = committed
