"""EQ.APPEND: publish numbered messages to a durable topic; a resent message is stored once.

A smart client resends a batch, through any hub, until it receives a reply. The log stores the last number of each
publisher: a batch that it already has gets the reply of the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.commands.spec import CommandSpec
from equipoise.hub.data.reply import Reply
from equipoise.resp.requests import parse_integer

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["append", "spec"]

# Most bytes in one batch, which has to fit into one entry of a ledger.
BATCH_BYTES_MAX = 4 * 1024 * 1024
PUBLISHER_BYTES_MAX = 64
_NOT_DURABLE = "NOTDURABLE the topic has no log: use PUBLISH"
# The client has learned from another hub that there are durable topics.
_UNKNOWN = "TRYAGAIN this hub does not know yet which topics are durable"
_TOO_LARGE = f"ERR more than {BATCH_BYTES_MAX} bytes in one batch: send several"
_BAD_NUMBERS = (
    f"ERR syntax error: EQ.APPEND channel publisher run n message …; a publisher has 1 to {PUBLISHER_BYTES_MAX} bytes, "
    f"run and n are numbers from 0 on"
)


def append(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    publisher, run, n = command[2], parse_integer(command[3]), parse_integer(command[4])
    if run is None or n is None or min(run, n) < 0 or not 1 <= len(publisher) <= PUBLISHER_BYTES_MAX:
        return _BAD_NUMBERS
    topic = core.topic_to_publish(session, command[1])
    if isinstance(topic, str):
        return topic
    if topic.log is None:
        return _NOT_DURABLE if core.specs.version else _UNKNOWN
    if sum(map(len, command)) > BATCH_BYTES_MAX:
        return _TOO_LARGE
    if topic.is_watched:
        core.metering.arrivals.note(topic, command[5:])
    if session.subscriptions is not None:
        # The client may receive its own message: write the gathered replies before it.
        session.flush()
    return topic.log.publish_numbered(command[2:])


def spec() -> CommandSpec:
    return CommandSpec(
        name="eq.append",
        arity=-6,
        run=append,
        summary="Sends numbered messages to a durable topic, and returns the position and id of the last.",
        since="0.1.0",
        group="pubsub",
        flags=("pubsub", "loading", "stale", "fast"),
        categories=("@pubsub", "@fast"),
        complexity="O(N) in the number of subscribers",
        is_pipelined=True,
    )
