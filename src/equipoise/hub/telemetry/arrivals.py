"""Record each message's arrival on the topics that somebody profiles: when, from whom, how long. Never what it says.

Arrivals are noted where the publisher is connected, which is the one hub that can tell publishers apart. Publishers
appear under pseudonyms: a hash with a key that nobody outside knows and that ends with this life of the hub.

Always true: at most `arrivals_topics_max` topics are watched, each for `arrivals_duration_s` unless asked for again;
a window holds at most its share of `arrivals_per_s_max`, and what is left out is counted.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.telemetry import Block, NameColumn, RecordKind, Values, narrow

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic, TopicIndex
    from equipoise.hub.settings import HubSettings

__all__ = ["Arrivals"]

# Records made in one go: a millisecond.
SLICE = 1_000
_KEY_BYTES = 32


class _Run(NamedTuple):
    """Messages that came together."""

    time_us: int
    topic: bytes
    publisher: int
    group: bytes | None
    sizes: Sequence[int]


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
    """Owned by Metering."""

    def __init__(self, core: _Hub) -> None:
        self._core = core
        self._settings = core.settings.telemetry
        self._per_window = max(1, int(self._settings.arrivals_per_s_max * self._settings.window_s))
        # When the watch of each topic ends.
        self.until: dict[bytes, float] = {}
        self._key = b""
        self.runs: list[_Run] = []
        self._noted = 0
        self.left_out = 0

    @property
    def topics(self) -> int:
        """How many are watched."""
        return len(self.until)

    def watch(self, name: bytes, randbytes: Callable[[int], bytes]) -> str | None:
        """Record the topic's arrivals from now on; or why not."""
        most = self._settings.arrivals_topics_max
        if name not in self.until and len(self.until) >= most:
            return (
                f"ERR arrivals of {most} topics are recorded already (telemetry.arrivals_topics_max); "
                "turn one of them OFF first"
            )
        self._key = self._key or randbytes(_KEY_BYTES)
        self.until[name] = self._core.now() + self._settings.arrivals_duration_s
        self._mark(name, is_watched=True)
        return None

    def unwatch(self, name: bytes) -> None:
        if self.until.pop(name, None) is not None:
            self._mark(name, is_watched=False)

    def adopt(self, topic: Topic) -> None:
        """A topic may be made, or made again, after somebody asked for it."""
        topic.is_watched = topic.name in self.until
        topic.gate()

    def clear(self) -> None:
        """This life of the hub is over: nobody watches, and pseudonyms begin anew."""
        for name in list(self.until):
            self.unwatch(name)
        self._key = b""
        self.runs = []
        self._noted = 0

    def note(self, topic: Topic, payloads: Sequence[bytes]) -> None:
        """Its last publisher publishes these."""
        room = self._per_window - self._noted
        session = self._core.sessions.get(topic.publisher or 0)
        if room <= 0 or session is None:
            self.left_out += len(payloads)
            return
        sizes = list(map(len, payloads[:room]))
        self.left_out += len(payloads) - len(sizes)
        self._noted += len(sizes)
        user = session.user
        group = None if user is None or user.is_anonymous else user.name.encode()
        time_us = int(self._core.shell.wall_time() * 1_000_000)
        self.runs.append(_Run(time_us, topic.name, self._pseudonym(session), group, sizes))

    def take(self, now: float) -> Iterator[Block]:
        """What has come since the last call, in blocks that each take a moment to make."""
        for name in [name for name, until in self.until.items() if now > until]:
            self.unwatch(name)
        runs, self.runs, self._noted = self.runs, [], 0
        some: list[_Run] = []
        count = 0
        for run in runs:
            # The hub reads at most a few thousand messages at once, so a run is not worth cutting.
            some.append(run)
            count += len(run.sizes)
            if count >= SLICE:
                yield _block(some)
                some, count = [], 0
        if some:
            yield _block(some)

    def _pseudonym(self, session: Session) -> int:
        """The same for all connections of a client's link, as far as it has one."""
        who = session.link if session.link is not None else b"%d" % session.id
        digest = hashlib.blake2b(who, key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)

    def _mark(self, name: bytes, *, is_watched: bool) -> None:
        topic = self._core.index.topics.get(name)
        if topic is not None:
            topic.is_watched = is_watched
            topic.gate()


def _block(runs: Sequence[_Run]) -> Block:
    times, publishers = array("q"), array("q")
    topics: list[bytes] = []
    groups: list[bytes | None] = []
    sizes: list[int] = []
    for run in runs:
        count = len(run.sizes)
        times.extend(repeat(run.time_us, count))
        publishers.extend(repeat(run.publisher, count))
        topics += [run.topic] * count
        groups += [run.group] * count
        sizes += run.sizes
    values: dict[str, Values] = {
        "topic": NameColumn.of(topics),
        "publisher": publishers,
        "publisher_group": NameColumn.of_optional(groups),
        "size_bytes": narrow(sizes),
    }
    return Block.of(RecordKind.ARRIVAL, len(sizes), values, time_us=times, window_us=0)
