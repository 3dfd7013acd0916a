"""Record arrivals on profiled topics: time, publisher, count; never payloads.

Messages published together are one record. The publisher's hub records them, because only that hub can distinguish
publishers. Publishers appear under pseudonyms: a hash with a key of the recording, which the operator gives to all
hubs, or with a secret key of this incarnation of the hub.

A hub with more arrivals than the limit omits whole publishers, those with the greatest pseudonyms: half of all possible
ones, then half of the rest. So hubs with the same key omit the same publishers, and a reader can omit them from the
beginning (`kept`).

Always true: at most `arrivals_topics_max` topics are watched, each for `arrivals_duration_s` after the last request;
a window holds at most its share of `arrivals_per_s_max`, and omitted messages are counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.limits.seat_order import pseudonym
from equipoise.telemetry import Block, NameColumn, RecordKind, Values, narrow

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic, TopicIndex
    from equipoise.hub.settings import HubSettings

__all__ = ["KEY_BYTES", "Arrivals"]

# Records built in one step: a millisecond.
SLICE = 1_000
KEY_BYTES = 32
# Bytes at the start of a link's id that identify the client.
CLIENT_BYTES = 16


def _is_kept(publisher: int, share: float) -> bool:
    """Whether the publisher's pseudonym is within the lowest `share` of all possible pseudonyms."""
    return publisher + 2**63 < share * 2**64


class _Run(NamedTuple):
    """Messages that were published together."""

    time_us: int
    topic: bytes
    publisher: int
    group: bytes | None
    messages: int
    size: int


class _Hub(Protocol):
    @property
    def settings(self) -> HubSettings: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def sessions(self) -> dict[int, Session]: ...
    @property
    def index(self) -> TopicIndex: ...
    def now(self) -> float: ...


class Arrivals:
    """Owned by TelemetryRecorder."""

    def __init__(self, core: _Hub) -> None:
        self._core = core
        self._settings = core.settings.telemetry
        self._per_window = max(1, int(self._settings.arrivals_per_s_max * self._settings.window_s))
        # By watched topic, the time at which the watch ends; and the key of its pseudonyms.
        self.until: dict[bytes, float] = {}
        self._keys: dict[bytes, bytes] = {}
        self._key = b""
        self.runs: list[_Run] = []
        self._noted = 0
        # Messages that were not recorded; and the recorded share of all possible pseudonyms, while any topic is
        # watched.
        self.left_out = 0
        self.kept = 1.0

    @property
    def topics(self) -> int:
        """Number of watched topics."""
        return len(self.until)

    def watch(self, name: bytes, randbytes: Callable[[int], bytes], key: bytes = b"") -> str | None:
        """Record the topic's arrivals from now on, under pseudonyms by this key; return the error text on failure."""
        most = self._settings.arrivals_topics_max
        if name not in self.until and len(self.until) >= most:
            return (
                f"ERR arrivals of {most} topics are already recorded (telemetry.arrivals_topics_max); "
                "turn one of them OFF first"
            )
        self._key = self._key or randbytes(KEY_BYTES)
        if not self.until:
            self.kept = 1.0
        self._keys[name] = key or self._keys.get(name) or self._key
        self.until[name] = self._core.now() + self._settings.arrivals_duration_s
        self._mark(name, is_watched=True)
        return None

    def unwatch(self, name: bytes) -> None:
        if self.until.pop(name, None) is not None:
            self._keys.pop(name, None)
            self._mark(name, is_watched=False)

    def adopt(self, topic: Topic) -> None:
        """Watch a topic that was created, or created again, after the request."""
        topic.is_watched = topic.name in self.until
        topic.gate()

    def clear(self) -> None:
        """This incarnation of the hub has ended: watch no topic, and use a new key."""
        for name in list(self.until):
            self.unwatch(name)
        self._key = b""
        self.runs = []
        self._noted = 0

    def note(self, topic: Topic, payloads: Sequence[bytes]) -> None:
        """The topic's last publisher publishes these messages."""
        session = self._core.sessions.get(topic.publisher or 0)
        publisher = None if session is None else self._pseudonym(session, topic.name)
        if session is None or publisher is None or not _is_kept(publisher, self.kept):
            self.left_out += len(payloads)
            return
        while self._noted >= self._per_window:
            self._leave_out_more()
            if not _is_kept(publisher, self.kept):
                self.left_out += len(payloads)
                return
        self._noted += 1
        user = session.user
        group = session.group or (None if user is None or user.is_anonymous else user.name.encode())
        time_us = int(self._core.shell.wall_time() * 1_000_000)
        self.runs.append(_Run(time_us, topic.name, publisher, group, len(payloads), sum(map(len, payloads))))

    def _leave_out_more(self) -> None:
        """Omit half of the recorded publishers, also from this window."""
        self.kept /= 2
        kept = [run for run in self.runs if _is_kept(run.publisher, self.kept)]
        self.left_out += sum(run.messages for run in self.runs) - sum(run.messages for run in kept)
        self.runs, self._noted = kept, len(kept)

    def take(self, now: float) -> Iterator[Block]:
        """The arrivals since the last call, in blocks that each take about a millisecond to build."""
        for name in [name for name, until in self.until.items() if now > until]:
            self.unwatch(name)
        runs, self.runs, self._noted = self.runs, [], 0
        for start in range(0, len(runs), SLICE):
            yield _block(runs[start : start + SLICE])

    def _pseudonym(self, session: Session, topic: bytes) -> int | None:
        """The pseudonym, the same for all connections of a client with named links; None: the topic is not watched."""
        key = self._keys.get(topic)
        if key is None:
            return None
        # Connection numbers are local to a hub, so the hub's own key is part of the name.
        who = session.link[:CLIENT_BYTES] if session.link is not None else b"%b %d" % (self._key, session.id)
        return pseudonym(who, key)

    def _mark(self, name: bytes, *, is_watched: bool) -> None:
        topic = self._core.index.topics.get(name)
        if topic is not None:
            topic.is_watched = is_watched
            topic.gate()


def _block(runs: Sequence[_Run]) -> Block:
    values: dict[str, Values] = {
        "topic": NameColumn.of([run.topic for run in runs]),
        "publisher": array("q", (run.publisher for run in runs)),
        "publisher_group": NameColumn.of_optional([run.group for run in runs]),
        "size_bytes": narrow([run.size for run in runs]),
        "messages": narrow([run.messages for run in runs]),
    }
    times = array("q", (run.time_us for run in runs))
    return Block.of(RecordKind.ARRIVAL, len(runs), values, time_us=times, window_us=0)
