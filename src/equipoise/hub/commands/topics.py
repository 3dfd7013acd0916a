"""EQ.TOPICS, EQ.TOPIC and EQ.ENVELOPE: list the topics of this hub, their homes, counters and rate limits.

A client learns nothing about topics for which it has no permission, not even by guessing cursors: a cursor is the
number of a topic, in order of creation, and any number is valid and returns the topics after it. A client that reads
page after page receives every topic that existed throughout exactly once, in that order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from equipoise.access import Action
from equipoise.hub.cluster.counters import limit_facts
from equipoise.hub.commands.pubsub import LISTED_AT_ONCE, is_visible
from equipoise.hub.data.subscribe import compile_pattern
from equipoise.hub.data.turns import by_turns
from equipoise.model import Glob
from equipoise.resp.replies import array, bulk, integer, null
from equipoise.resp.requests import parse_integer

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

# Most topics in one page: a reply of about 100 kB.
PAGE_MAX = 1_000
_BEGIN = b"0"
_USAGE = "ERR syntax error: EQ.TOPICS cursor count [MATCH pattern] [HOME]"


class _Asked(NamedTuple):
    """One request of EQ.TOPICS."""

    # The topics after the cursor.
    topics: list[Topic]
    rows_max: int
    glob: Glob | None = None
    # Whether to list only topics whose home is this hub.
    is_home: bool = False


def topics(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """EQ.TOPICS cursor count [MATCH pattern] [HOME] → [next cursor, rows]; the last page has the cursor 0."""
    asked = _parse(core, session, command)
    if isinstance(asked, str):
        return asked
    rows: list[bytes] = []
    cursor = _BEGIN

    def steps() -> Iterator[None]:
        nonlocal cursor
        for i, topic in enumerate(asked.topics):
            is_here = core.index.topics.get(topic.name) is topic
            if is_here and _is_wanted(asked, session, topic):
                rows.append(_row(core, topic))
                if len(rows) == asked.rows_max and i + 1 < len(asked.topics):
                    cursor = b"%d" % topic.number
                    return
            if not i % LISTED_AT_ONCE:
                yield

    return by_turns(core, session, steps(), lambda: array((bulk(cursor), array(rows))))


def topic(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    """EQ.TOPIC name [name …] → a row for each, null for topics that do not exist here."""
    found = [core.index.topics.get(name) for name in command[1:]]
    return array(
        null(session.proto) if one is None or not _may_see(session, one.name) else _row(core, one)
        for one in found
    )


def envelope(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    """EQ.ENVELOPE name [name …] → the state of each topic's rate limit at this hub; null for topics without one."""
    rows = []
    for name in command[1:]:
        one = core.index.topics.get(name)
        is_shown = one is not None and one.limit is not None and _may_see(session, name)
        rows.append(_envelope_row(one) if one is not None and is_shown else null(session.proto))
    return array(rows)


def _envelope_row(topic: Topic) -> bytes:
    streams = [topic, *(() if topic.beside is None else topic.beside.lanes.values())]
    assert topic.limit is not None, "it is shown"
    rate, burst = topic.limit.envelope
    # The whole envelope; then this hub's share, and the counters of messages here.
    facts: dict[str, float] = {"rate_per_s": rate, "burst": burst, "wait_s": topic.limit.wait_ns / 1e9}
    for name, number in limit_facts(streams).items():
        word = name.removeprefix("limit_")
        facts[f"share_{word}" if word in facts else word] = number
    return array(
        part for name, number in facts.items() for part in (bulk(name.encode()), bulk(b"%.12g" % number))
    )


def _parse(core: HubCore, session: Session, command: list[bytes]) -> _Asked | str:
    cursor, count = command[1], parse_integer(command[2])
    if count is None or not 1 <= count <= PAGE_MAX:
        return f"ERR count must be a number from 1 to {PAGE_MAX}"
    after = parse_integer(cursor)
    if after is None or after < 0:
        return "ERR a cursor is 0 or the one of the previous page"
    # Ordered by number.
    topics = list(core.index.topics.values())
    if after:
        topics = topics[bisect_right(topics, after, key=lambda topic: topic.number) :]
    glob, is_home = None, False
    words = iter(command[3:])
    for word in words:
        if word.upper() == b"HOME":
            is_home = True
        elif word.upper() == b"MATCH" and (pattern := next(words, None)) is not None:
            compiled = compile_pattern(core, pattern)
            if isinstance(compiled, str):
                return compiled
            glob = compiled
        else:
            return _USAGE
    return _Asked(topics, count, glob, is_home)


def _is_wanted(asked: _Asked, session: Session, topic: Topic) -> bool:
    if asked.is_home and not topic.is_home:
        return False
    if asked.glob is not None and not asked.glob.matches(topic.name):
        return False
    return _may_see(session, topic.name)


def _may_see(session: Session, name: bytes) -> bool:
    return is_visible(session, name) or session.may(Action.OBSERVE, name)


def _row(core: HubCore, topic: Topic) -> bytes:
    """Name, state, home (empty: no member is alive), subscribers by name and by filter, messages in and out, the reason
    why messages wait, filters."""
    stream, home = topic.stream, core.cluster.router.home(topic.name)
    state = "open" if stream is None else stream.state.value
    return array(
        (
            bulk(topic.name),
            bulk(state.encode()),
            bulk((home or "").encode()),
            integer(len(topic.members) + (0 if topic.content is None else topic.content.subscriptions)),
            integer(topic.published),
            integer(topic.delivered),
            bulk(core.cluster.waiting_for(topic).encode()),
            integer(0 if topic.content is None else len(topic.content.index)),
        )
    )
