"""Publish what a client has pipelined, in runs as long as may be: bookkeeping is per run, so long runs are cheap.

Not for subscribers: they may be their own audience, and see each delivery before the reply to its publish.

Always true:
    a subscriber sees messages in the order in which they were published, also those of different topics;
    what would keep the loop for long is left for a later turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.resp import Publishes

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

# Bytes written to all subscribers together in one go: some 50 ms. 50 messages of 1 kB to 2,000 subscribers stay below.
AT_ONCE_BYTES = 128 * 1024 * 1024
# For so many no run comes near that, however much a client may send at once.
FEW_RECEIVERS = 50
# Topics in a batch that is gathered without giving way: a millisecond or two.
_GROUPS_MAX = 256


def publish_batch(
    core: HubCore, session: Session, batch: Publishes, until: float
) -> tuple[bytes, Publishes | None]:
    """The replies to what was published, and what is left at `until`."""
    topics, payloads = batch
    name = topics[0]
    if topics.count(name) != len(topics):
        replies = _publish_grouped(core, session, batch)
        if replies is not None:
            return b"".join(replies), None
        return _publish_in_order(core, session, batch, until)
    topic = core.topic_to_publish(session, name)
    if isinstance(topic, str):
        return core.refuse(topic, times=len(payloads)) * len(payloads), None
    receivers = core.audience_of(topic).receivers
    if receivers > FEW_RECEIVERS and receivers * sum(map(len, payloads)) > AT_ONCE_BYTES:
        return _publish_in_slices(core, topic, batch, until)
    return core.submit(topic, payloads) * len(payloads), None


def publish_run(core: HubCore, session: Session, name: bytes, payloads: Sequence[bytes]) -> bytes:
    """The replies to messages of one topic."""
    topic = core.topic_to_publish(session, name)
    if isinstance(topic, str):
        return core.refuse(topic, times=len(payloads)) * len(payloads)
    return core.submit(topic, payloads) * len(payloads)


def _publish_in_slices(
    core: HubCore, topic: Topic, batch: Publishes, until: float
) -> tuple[bytes, Publishes | None]:
    topics, payloads = batch
    count = len(payloads)
    sent_bytes = core.audience_of(topic).receivers * sum(map(len, payloads))
    step = max(1, count * AT_ONCE_BYTES // sent_bytes)
    replies: list[bytes] = []
    for start in range(0, count, step):
        if replies and core.now() > until:
            return b"".join(replies), Publishes(topics[start:], payloads[start:])
        run = payloads[start : start + step]
        replies.append(core.submit(topic, run) * len(run))
    return b"".join(replies), None


def _publish_grouped(core: HubCore, session: Session, batch: Publishes) -> list[bytes] | None:
    """Gather a mixed batch by topic, if no subscriber can tell the difference; the replies in order.

    A subscriber sees the order between two topics only if it gets both. So all topics but one have to be
    heard by nobody but clients with a single subscription.
    """
    topics, payloads = batch
    runs: dict[bytes, list[bytes]] = {}
    for name, payload in zip(topics, payloads, strict=True):
        run = runs.get(name)
        if run is None:
            runs[name] = [payload]
        else:
            run.append(payload)
    if 2 * len(runs) > len(topics) or len(runs) > _GROUPS_MAX:
        # Little to gather, or much to look at first: the plain way is cheaper, and gives way.
        return None
    found = {name: core.topic_to_publish(session, name) for name in runs}
    audiences = [core.audience_of(topic) for topic in found.values() if not isinstance(topic, str)]
    if sum(not audience.is_exclusive for audience in audiences) > 1:
        return None
    replies = {
        name: core.refuse(topic, times=len(runs[name]))
        if isinstance(topic, str)
        else core.submit(topic, runs[name])
        for name, topic in found.items()
    }
    return [replies[name] for name in topics]


def _publish_in_order(
    core: HubCore, session: Session, batch: Publishes, until: float
) -> tuple[bytes, Publishes | None]:
    """Publish each run of consecutive messages to one topic as one."""
    topics, payloads = batch
    count = len(topics)
    replies: list[bytes] = []
    start = 0
    while start < count:
        name = topics[start]
        end = start + 1
        while end < count and topics[end] == name:
            end += 1
        replies.append(publish_run(core, session, name, payloads[start:end]))
        start = end
        # A topic that is new has to be matched with all patterns, so each run may take long.
        if start < count and core.now() > until:
            return b"".join(replies), Publishes(topics[start:], payloads[start:])
    return b"".join(replies), None
