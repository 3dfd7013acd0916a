"""Topics with a durable spec: channel and log are one stream.

PUBLISH, EQ.PUBLISH and XADD append to the log and are answered after the commit. Subscribers get what is committed,
and only that, in the order of the log. A message of PUBLISH is an entry with the one field `payload`; to subscribers an
entry of XADD is the value of that field if it is the only one, else all fields and values as an array in RESP.

The position of a message is the number of its entry, at every hub and for ever. The channel's home sends what the log
of its own commits; where the log was opened after a move or a crash, it first sends what is in the log and has not come
to its subscribers. A hub that follows the topic and misses numbers, whichever hub was lost with them, asks the owner of
the log for the messages behind the last one that it has, and takes nothing else until it has got them.

Always true: a hub gives its subscribers each number once, in rising order, without a hole within what the log keeps.
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

# How long subscribers wait for the log to say where the topic stands, in seconds; then they begin without.
PATIENCE_S = 2.0
# How soon the owner is asked again for what is missing.
_AGAIN_S = 0.1


class DurableCore(Protocol):
    """What durable topics need of the hub."""

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
    """The channel of one topic on its log. `Topic.log` is one for durable topics."""

    def __init__(self, core: DurableCore, topic: Topic, logs: HubLogs) -> None:
        self._core = core
        self._topic = topic
        self._logs = logs
        # Whether `Topic.n` is the number of the last message that subscribers here have got, or need not get.
        self.is_numbered = False
        # Who waits for that, since when the home came here; and whether they have waited for long enough.
        self.waiters: list[Callable[[], None]] = []
        self._patience: Timer | None = None
        self._is_overdue = False
        # Whether it will be looked soon whether the log is open here.
        self._is_looking = False
        # The epoch of the log as it was last opened here, and the number up to which its entries were sent.
        self._log_epoch = self._sent = 0
        # Whether missing messages have been asked for, and the greatest number heard of meanwhile.
        self._is_reading = False
        self._heard = 0

    # Publishing.

    def publish(self, payloads: Sequence[bytes]) -> bytes | Reply:
        """The replies to all messages, once they are committed."""
        name, logs = self._topic.name, self._logs
        if logs.elsewhere is None:
            outcome = self.publish_here(logs.of(name), payloads)
        else:
            outcome = logs.elsewhere.submit(name, LogRequest(PUBLISH, [b"publish", name, *payloads]))
        return outcome if len(payloads) == 1 else for_each(outcome, len(payloads))

    def publish_here(self, live: LiveLog, payloads: Sequence[bytes]) -> bytes | Reply:
        def work(log: TopicLog) -> bytes:
            self._add(log, payloads)
            # At all hubs, as of a second ago, as for every topic.
            return self._core.audience_of(self._topic).common_reply * len(payloads)

        return live.submit(work, sum(map(len, payloads)))

    def publish_positioned(
        self, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> bytes | Reply:
        """`receipt` makes the reply of epoch, position and receivers, once the messages are committed."""
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
        """Publisher, run, number of the first message, and messages, which are in the log once if sent again."""
        name = self._topic.name
        return self._logs.submit(name, LogRequest(PUBLISH_NUMBERED, [b"eq.append", name, *words]))

    def publish_numbered_here(self, live: LiveLog, words: Sequence[bytes]) -> bytes | Reply:
        def work(log: TopicLog) -> bytes:
            added = add_numbered(log, words, self._logs.now_ms())
            return added.receipt(self._core.audience_of(self._topic).receivers)

        return live.submit(work, sum(map(len, words)))

    def take_in(self, payloads: Sequence[bytes], done: Callable[[tuple[int, int]], object]) -> None:
        """A hub without logs brings messages; `done` with a position once they are committed, NOWHERE if they are not.

        Such a hub sends some of them again when their home dies: they are there at least once.
        """

        def tell() -> None:
            reply = outcome if isinstance(outcome, bytes) else b"".join(outcome.pieces or ())
            done(NOWHERE if reply[:1] in (b"-", b"") else (self._topic.epoch, self._topic.n))

        outcome = self.publish(payloads) if payloads else b""
        if isinstance(outcome, Reply) and outcome.pieces is None:
            outcome.owe(tell, 0.0, is_muted=False)
        else:
            tell()

    def _add(self, log: TopicLog, payloads: Sequence[bytes]) -> None:
        now_ms = self._logs.now_ms()
        for payload in payloads:
            add_entry(log, payload_body(payload), now_ms)

    # The home, which sends what its log has.

    def deliver(self, live: LiveLog, added: Sequence[EntryAdded]) -> None:
        """These entries, the last that are committed, go to subscribers if the channel's home is here."""
        topic = self._topic
        self._meet(live, live.committed_number - len(added))
        if topic.n + len(added) == live.committed_number and topic.is_home and self.is_numbered:
            self._core.publish(topic, [payload_of(entry.body) for entry in added])
            self._sent = topic.n
        else:
            self.align(live)

    def align(self, live: LiveLog) -> None:
        """Send what is committed in the log and has not come to subscribers; then the channel stands where it does."""
        topic, last = self._topic, live.committed_number
        if live.stage is not LogStage.OPEN:
            return
        self._meet(live, last)
        if not topic.is_home:
            return
        if not self.is_numbered:
            topic.jump(topic.epoch, self._sent)
            self._number()
        if topic.n < last:
            found = [
                (n, payload_of(body_of(piece))) for n, piece in live.log.entries.behind(topic.n) if n <= last
            ]
            self._pass_on(found, last)
        self._sent = topic.n
        self._logs.filled(topic)

    def _meet(self, live: LiveLog, committed: int) -> None:
        """Note how many entries the log had when this hub opened it.

        Its home may get here later than the log. Later entries are sent then: subscribers by pattern wait for them.
        """
        if self._log_epoch != live.epoch:
            self._log_epoch, self._sent = live.epoch, committed

    def take_over(self, end: int) -> int:
        """The channel's home is here from now on, the former one ended at this number, 0 if unknown; where it goes on.

        What the log has behind that is sent once it is open here.
        """
        self._end_patience()
        self._is_overdue = False
        if not self._topic.has_followers:
            # What this hub knows is of the time when it last followed.
            self.is_numbered = False
        if not self.is_numbered and end:
            self._topic.n = end
            self._number()
        if self.is_numbered:
            self.home_lost()
        elif self.waiters:
            self._be_patient()
        self._look_later(0)
        return self._topic.n

    def home_lost(self) -> None:
        """The log may have what has not come here: who subscribes by pattern waits for that, and does not get it."""
        self._logs.await_fill(self._topic, self, PATIENCE_S)

    def look(self) -> None:
        """Open the log, if it is to be here and subscribers may miss messages of it."""
        topic = self._topic
        self._is_looking = False
        if topic.log is self and topic.is_home and (self.waiters or self._core.audience_of(topic).is_heard):
            live = self._logs.open_here(topic.name)
            if live is None or live.is_sealing:
                # It is on its way to another hub, or will be: look whether the channel follows.
                self._look_later(_AGAIN_S)
            else:
                self.align(live)

    def _look_later(self, delay_s: float) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._logs.call_later(delay_s, self.look)

    # Hubs that follow it.

    def relay(self, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        """Another hub brings messages, the first of this number; without any: it goes on from there."""
        topic = self._topic
        if epoch > topic.epoch:
            topic.jump(epoch, topic.n)
        if not self.is_numbered or (first - 1 > topic.n and not topic.has_followers):
            topic.jump(topic.epoch, first - 1)
            self._number()
        if (skip := topic.n + 1 - first) > 0:
            first, payloads = first + skip, payloads[skip:]
        last = first - 1 + len(payloads)
        if self._is_reading or first > topic.n + 1:
            self._heard = max(self._heard, last)
            self._read()
        elif payloads:
            self._core.publish(topic, payloads, first)
            self._logs.filled(topic)

    def _read(self) -> None:
        """Ask the owner of the log for what is missing."""
        if self._is_reading:
            return
        self._is_reading = True
        name = self._topic.name
        outcome = self._logs.submit(name, LogRequest(SINCE, [b"eq.since", name, b"%d" % self._topic.n]))
        if isinstance(outcome, bytes):
            self._logs.call_later(0, lambda: self._got(outcome))
            return
        outcome.owe(lambda: self._got(b"".join(outcome.pieces or ())), 0.0, is_muted=False)
        self._logs.call_later(REPLY_S, lambda: outcome.expire() if outcome.is_wanted else None)

    def _got(self, reply: bytes) -> None:
        self._is_reading = False
        topic, found = self._topic, unpack_since(reply)
        if topic.log is not self:
            return
        if topic.is_home:
            self.look()
            return
        if found is not None:
            self._pass_on([each for each in found.messages if each[0] > topic.n], found.reaches)
        if topic.n < self._heard and topic.has_followers:
            if found is None:
                self._is_reading = True
                self._logs.call_later(_AGAIN_S, self._read_again)
            else:
                self._read()
        elif topic.stream is not None:
            self._logs.filled(topic)
            self._core.cluster.caught_up(topic.stream)

    def _read_again(self) -> None:
        self._is_reading = False
        if self._topic.log is self and not self._topic.is_home:
            self._read()

    def _pass_on(self, messages: Sequence[tuple[int, bytes]], reaches: int) -> None:
        """Give subscribers these messages, with the numbers that they have; others up to `reaches` are gone."""
        topic, run = self._topic, list[bytes]()
        for i, (n, payload) in enumerate(messages):
            run.append(payload)
            if i + 1 == len(messages) or messages[i + 1][0] != n + 1:
                self._skip_to(n - len(run))
                self._core.publish(topic, run, n + 1 - len(run))
                run = []
        self._skip_to(reaches)

    def _skip_to(self, n: int) -> None:
        """Numbers up to this one are trimmed or deleted."""
        topic = self._topic
        if n > topic.n:
            if topic.has_subscribers:
                self._core.losses.count(topic.name, n - topic.n)
            topic.jump(topic.epoch, n)

    # Who has to know where it stands.

    @property
    def may_begin(self) -> bool:
        """Whether a subscriber may be told where the topic stands; else `waiters` are called when it may."""
        is_known = self.is_numbered or self._is_overdue
        if not is_known:
            self._look_later(0)
            self._be_patient()
        return is_known

    @property
    def may_subscribe(self) -> bool:
        """The same for a client of the home, which also waits until the home has sent what its log has.

        A client of the former home may have received that, and come here: it must not receive it again.
        """
        if not self.may_begin:
            return False
        if self._topic in self._logs.unfilled:
            self._look_later(0)
            return False
        return True

    def _number(self) -> None:
        self.is_numbered = True
        self._end_patience()
        self.wake()

    def _be_patient(self) -> None:
        if self._patience is None:
            self._patience = self._logs.call_later(PATIENCE_S, self._give_up)

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        self._is_overdue = True
        self.wake()

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for wake in waiters:
            wake()
