"""EQ.FILTER: what a filter means, without subscribing: what one types when nothing arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.content.attributes import attributes_of, path_of, values_at
from equipoise.content.parsing import parse_filter
from equipoise.errors import FilterError
from equipoise.hub.content.filtering import denied
from equipoise.hub.data.topic import Topic
from equipoise.resp.replies import array, bulk, integer

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["explain"]


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
    # A topic that does not exist has its spec all the same.
    found = core.index.topics.get(topic) or Topic(topic, 0, is_shard=False)
    source = core.filtering.source_of(found)
    paths = [path_of(constraint.path) for constraint in filter.constraints]
    parts = [bulk(str(filter).encode())]
    for payload in command[3:]:
        attributes = attributes_of(payload, source)
        parts.append(integer(attributes is not None and filter.matches(values_at(attributes, paths))))
    return array(parts)
