"""EQ.FILTER, EQ.FILTERS, EQ.FSUBSCRIBE, EQ.FUNSUBSCRIBE and EQ.COVER.

EQ.FILTER evaluates a filter without subscribing, to find out why no message arrives. EQ.FSUBSCRIBE, EQ.FUNSUBSCRIBE and
EQ.COVER are for smart clients; plain clients subscribe by PSUBSCRIBE.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.content.attributes import attributes_of, path_of, values_at
from equipoise.content.parsing import FilterRequest, parse_filter
from equipoise.errors import FilterError
from equipoise.hub.access.denials import denial
from equipoise.hub.commands.connection import NEEDS_RESP3
from equipoise.hub.commands.pubsub import unsubscriber
from equipoise.hub.commands.spec import CommandSpec, Handler
from equipoise.hub.content.filtering import denied, streams_of
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.hub.data.held_subscriptions import NO_SUBSCRIPTIONS
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.subscribe import objection, subscribe
from equipoise.hub.data.topic import Topic
from equipoise.resp.replies import OK, array, bulk, integer
from equipoise.resp.requests import parse_integer

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["specs"]

# Most filters in one reply, of up to 4 KiB each; most have about 50 bytes.
LISTED_MAX = 1_000
# Most digits of a client's number for a subscription: more than a connection's subscriptions need.
NUMBER_BYTES_MAX = 10
# Upper bound for the subscriptions that one session of two hubs migrates: more than a hub may have.
TOTAL_MAX = 10_000_000


def explain(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.FILTER topic filter [payload …] → [canonical text, 1 or 0 for each payload]."""
    topic = command[1]
    if len(topic) > core.limits.topic_bytes_max:
        return f"ERR topic name longer than {core.limits.topic_bytes_max} bytes (topic_bytes_max)"
    if problem := denied(session, topic):
        return problem
    try:
        filter = parse_filter(command[2])
    except FilterError as problem:
        return f"ERR {problem}"
    # A topic that does not exist has a spec, too.
    found = core.index.topics.get(topic) or Topic(topic, 0, is_shard=False)
    source = core.filtering.source_of(found)
    paths = [path_of(constraint.path) for constraint in filter.constraints]
    parts = [bulk(str(filter).encode())]
    for payload in command[3:]:
        attributes = attributes_of(payload, source)
        parts.append(integer(attributes is not None and filter.matches(values_at(attributes, paths))))
    return array(parts)


def fsubscribe(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """EQ.FSUBSCRIBE number topic filter [SESSION name total]: pushes name the subscription by the client's number.

    SESSION: another hub has migrated the subscription here in that session, as one of `total`.
    """
    if session.proto != 3:
        return NEEDS_RESP3
    came_in = _session_of(command)
    if isinstance(came_in, str):
        return came_in
    number, name = command[1:3]
    if not number.isdigit() or len(number) > NUMBER_BYTES_MAX:
        return f"ERR the number of a subscription has 1 to {NUMBER_BYTES_MAX} digits"
    if len(name) > core.limits.topic_bytes_max:
        return f"ERR topic name longer than {core.limits.topic_bytes_max} bytes (topic_bytes_max)"
    try:
        request = FilterRequest(name, parse_filter(command[3]))
    except FilterError as problem:
        return f"ERR {problem}"
    known = (session.subscriptions or NO_SUBSCRIPTIONS).get(Kind.FILTERED, number)
    if isinstance(known, TopicFilter) and (known.topic, known.filter) != request:
        return f"ERR the subscription {number.decode()} of this connection has another topic or filter"
    compiled = {number: request}
    if text := objection(core, session, Kind.FILTERED, [number], compiled):
        return text

    def proceed() -> bytes:
        text = subscribe(core, session, Kind.FILTERED, [number], compiled)
        if text is None and session.redirected is not None:
            edge = core.cluster.edge
            if not edge.receive(session, number, name):
                core.cluster.redirects.subscribed(session, [name])
            edge.subscribed(session, number, came_in)
        return b"" if text is None else core.refuse(text)

    return core.cluster.subscriptions.when_ready(session, Kind.FILTERED, [], proceed, filtered=[request])


def _session_of(command: list[bytes]) -> tuple[str, int] | str | None:
    """The session that migrated the subscription here, and its number of migrations; None: none did."""
    if len(command) == 4:
        return None
    total = parse_integer(command[6]) if len(command) == 7 else None
    if total is None or command[4].upper() != b"SESSION" or not 0 < total < TOTAL_MAX:
        return "ERR syntax error: EQ.FSUBSCRIBE number topic filter [SESSION name total]"
    return command[5].decode(errors="replace"), total


def cover(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.COVER number: push the positions of the streams of the subscription's topic, then reply."""
    node = (session.subscriptions or NO_SUBSCRIPTIONS).get(Kind.FILTERED, command[1])
    if not isinstance(node, TopicFilter):
        return "ERR no such subscription: EQ.FSUBSCRIBE gives it its number"
    topic = core.index.topics[node.topic]
    content = topic.content
    assert content is not None and content.spans is not None and node.smart is not None, "it has positions"
    session.flush()
    content.spans.cover(node.smart, session, command[1], streams_of(topic))
    return OK


def filters(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """EQ.FILTERS topic count → [filters, covers, [text, subscriptions] …]: the oldest `count` filters."""
    name, count = command[1], parse_integer(command[2])
    if count is None or not 0 <= count <= LISTED_MAX:
        return f"ERR count must be a number from 0 to {LISTED_MAX}"
    if not session.may(Action.OBSERVE, name):
        return denial(session, Action.OBSERVE, name)
    topic = core.index.topics.get(name)
    content = None if topic is None else topic.content
    interest = None if topic is None or topic.stream is None else topic.stream.interest
    rows = [
        array((bulk(str(node.filter).encode()), integer(node.subscriptions)))
        for node in islice(() if content is None else content.index, count)
    ]
    found = 0 if content is None else len(content.index)
    return array((integer(found), integer(0 if interest is None else interest.covers), *rows))


def specs() -> list[CommandSpec]:
    def of(name: str, arity: int, run: Handler, summary: str, *, is_quick: bool = False) -> CommandSpec:
        flags = ("loading", "stale", "fast") if is_quick else ("pubsub", "noscript", "loading", "stale")
        return CommandSpec(
            name=name,
            arity=arity,
            run=run,
            summary=summary,
            since="0.1.0",
            group="pubsub",
            flags=flags,
            categories=("@pubsub", "@fast" if is_quick else "@slow"),
            runs_while_subscribed=not is_quick,
        )

    return [
        of(
            "eq.filter",
            -3,
            explain,
            "Returns the canonical form of a filter, and which payloads it matches.",
            is_quick=True,
        ),
        of("eq.filters", 3, filters, "Lists the filters of this hub's clients on a topic.", is_quick=True),
        of(
            "eq.fsubscribe",
            -4,
            fsubscribe,
            "Subscribes to the messages of a topic that match a filter, with positions.",
        ),
        of(
            "eq.funsubscribe",
            -1,
            unsubscriber(Kind.FILTERED),
            "Ends subscriptions of EQ.FSUBSCRIBE; without numbers, all.",
        ),
        of("eq.cover", 2, cover, "Requests the span of a filtered subscription, also if no message matches."),
    ]
