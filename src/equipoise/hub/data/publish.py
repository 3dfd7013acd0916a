"""Publish pipelined messages in runs: bookkeeping is per run.

Not for sessions with subscriptions: a client that receives its own messages gets each delivery before the reply to its
publish.

Always true:
    a subscriber receives messages in the order in which they were published, also messages of different topics;
    work that would block the loop for long is left for a later turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from equipoise.hub.data.reply import Reply
from equipoise.hub.data.topic import own_replies
from equipoise.resp import Command, Publishes

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.session_host import SessionHost
    from equipoise.hub.data.topics import Topic

# Bytes written to all subscribers together in one slice: about 50 ms. 50 messages of 1 kB to 2,000 subscribers are
# below it.
AT_ONCE_BYTES = 128 * 1024 * 1024
# With at most so many receivers no run comes near that limit, however much a client may send at once.
FEW_RECEIVERS = 50
# Messages matched with filters between two reads of the clock: one to two milliseconds.
FILTERED_AT_ONCE = 16
# Most topics in a batch that is grouped in one go: one to two milliseconds.
_GROUPS_MAX = 256


def publish_run(core: SessionHost, session: Session, name: bytes, payloads: Sequence[bytes]) -> bytes | Reply:
    """Publish messages to one topic; return the replies to all of them."""
    topic = core.topic_to_publish(session, name)
    if isinstance(topic, str):
        return core.refuse(topic, times=len(payloads)) * len(payloads)
    reply = core.submit(topic, payloads)
    return (reply * len(payloads) or own_replies(topic)) if isinstance(reply, bytes) else reply


def publish_batch(
    core: SessionHost, session: Session, batch: Publishes, until: float
) -> tuple[Sequence[bytes | Reply], Publishes | None]:
    """Publish a batch until the time `until`; return the replies, and the messages that are left."""
    topics, payloads = batch
    name = topics[0]
    if topics.count(name) != len(topics):
        grouped = _publish_grouped(core, session, batch)
        if grouped is not None:
            return (grouped,), None
        return _publish_in_order(core, session, batch, until)
    if _is_limited(core, session, name):
        return _publish_limited(core, session, batch, until)
    topic = core.index.topics.get(name)
    receivers = 0 if topic is None else core.audience_of(topic).receivers
    if receivers > FEW_RECEIVERS and receivers * sum(map(len, payloads)) > AT_ONCE_BYTES:
        step = len(payloads) * AT_ONCE_BYTES // (receivers * sum(map(len, payloads)))
        return _publish_in_slices(core, session, batch, until, max(1, step))
    if topic is not None and topic.content is not None:
        return _publish_in_slices(core, session, batch, until, FILTERED_AT_ONCE)
    return (publish_run(core, session, name, payloads),), None


def as_commands(batch: Publishes | list[Command]) -> list[Command]:
    """The batch as a list of commands."""
    if isinstance(batch, Publishes):
        return [[b"PUBLISH", *message] for message in zip(*batch, strict=True)]
    return batch


def _publish_in_slices(
    core: SessionHost, session: Session, batch: Publishes, until: float, step: int
) -> tuple[Sequence[bytes | Reply], Publishes | None]:
    topics, payloads = batch
    count, name = len(payloads), topics[0]
    replies: list[bytes | Reply] = []
    for start in range(0, count, step):
        if replies and core.now() > until:
            return replies, Publishes(topics[start:], payloads[start:])
        replies.append(publish_run(core, session, name, payloads[start : start + step]))
    return replies, None


def _publish_grouped(core: SessionHost, session: Session, batch: Publishes) -> bytes | None:
    """Publish a mixed batch grouped by topic, if no subscriber can observe it; return the replies in order, or None.

    Only a subscriber of two topics observes the order between them. So at most one topic may have subscribers with
    more than one subscription. No reply may be pending: limited topics must have tokens for all messages.
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
        # Few messages per topic, or many topics to check first: publishing in order is cheaper, and can be sliced.
        return None
    found = {name: core.topic_to_publish(session, name) for name in runs}
    known = [topic for topic in found.values() if not isinstance(topic, str)]
    is_shared = [not core.audience_of(topic).is_exclusive for topic in known]
    if sum(is_shared) > 1 or any(_is_special(topic) for topic in known):
        return None
    limited = [topic for topic in known if topic.limit is not None]
    if limited and not _take_for_all(core, limited, runs):
        return None
    replies: dict[bytes, bytes] = {}
    for name, topic in found.items():
        if isinstance(topic, str):
            replies[name] = core.refuse(topic, times=len(runs[name]))
        elif topic.limit is not None:
            replies[name] = core.cluster.limits.publish(topic, runs[name])
        else:
            reply = core.submit(topic, runs[name])
            assert isinstance(reply, bytes), "a topic that is open and not gated replies at once"
            replies[name] = reply
    return b"".join([replies[name] for name in topics])


def _is_special(topic: Topic) -> bool:
    """Whether the topic's messages may wait for more than tokens, or differ in their replies."""
    if topic.stream is not None or topic.content is not None:
        return True
    return topic.is_gated and (topic.is_watched or topic.limit is None)


def _take_for_all(core: SessionHost, limited: Sequence[Topic], runs: Mapping[bytes, Sequence[bytes]]) -> bool:
    """Take the tokens of all messages, or none."""
    limits = core.cluster.limits
    for i, topic in enumerate(limited):
        if not limits.take(topic, len(runs[topic.name])):
            for other in limited[:i]:
                limits.give_back(other, len(runs[other.name]))
            return False
    return True


def _is_limited(core: SessionHost, session: Session, name: bytes) -> bool:
    """Whether the topic has a rate envelope. Creates the topic if it does not exist, to look up its spec."""
    topic = core.index.topics.get(name) or core.topic_to_publish(session, name)
    return not isinstance(topic, str) and topic.limit is not None


def _publish_limited(
    core: SessionHost, session: Session, batch: Publishes, until: float
) -> tuple[Sequence[bytes | Reply], Publishes | None]:
    """Publish as many messages at once as the topic has tokens for; the others one by one, each with its own reply.

    After the first message that has to wait, the session continues as with any pending reply.
    """
    topics, payloads = batch
    start, count, name = 0, len(topics), topics[0]
    at_once = _publish_at_once(core, session, name, payloads)
    if at_once is not None:
        return (at_once,), None
    replies: list[bytes | Reply] = []
    while start < count:
        topic = core.index.topics.get(name)
        room = 0 if topic is None else core.cluster.limits.ready(topic)
        end = min(count, start + max(1, room))
        replies.append(publish_run(core, session, name, payloads[start:end]))
        start = end
        if start < count and (isinstance(replies[-1], Reply) or core.now() > until):
            return replies, Publishes(topics[start:], payloads[start:])
    return replies, None


def _publish_at_once(
    core: SessionHost, session: Session, name: bytes, payloads: Sequence[bytes]
) -> bytes | None:
    """Publish messages of a limited topic if it has tokens for all: the replies; None if it has not."""
    topic = core.topic_to_publish(session, name)
    if isinstance(topic, str) or topic.is_watched or not core.cluster.limits.take(topic, len(payloads)):
        return None
    return core.cluster.limits.publish(topic, payloads) * len(payloads) or own_replies(topic)


def _publish_in_order(
    core: SessionHost, session: Session, batch: Publishes, until: float
) -> tuple[Sequence[bytes | Reply], Publishes | None]:
    """Publish each run of consecutive messages to one topic together."""
    topics, payloads = batch
    count = len(topics)
    replies: list[bytes | Reply] = []
    start = 0
    while start < count:
        name = topics[start]
        end = start + 1
        if end < count and topics[end] == name and not _is_limited(core, session, name):
            while end < count and topics[end] == name:
                end += 1
        replies.append(publish_run(core, session, name, payloads[start:end]))
        start = end
        # A new topic has to be matched with all patterns, so each run may take long.
        if start < count and core.now() > until:
            return replies, Publishes(topics[start:], payloads[start:])
    return replies, None
