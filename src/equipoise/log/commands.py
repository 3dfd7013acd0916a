"""Redis's stream commands, EQ.STEPS and EQ.GROUP, on one log, by name.

A command reads a log, changes it through records, and returns the reply that may be sent once they are committed. If it
raises LogCommandError, it has changed nothing and the text of the error is the reply.
"""

from __future__ import annotations

from collections.abc import Callable

from equipoise.log.append import xadd, xcfgset, xdel, xsetid, xtrim
from equipoise.log.call import LogCall
from equipoise.log.groups import (
    group_create,
    group_createconsumer,
    group_delconsumer,
    group_destroy,
    group_setid,
    xack,
)
from equipoise.log.info import info_consumers, info_groups, info_stream
from equipoise.log.pending import xautoclaim, xclaim, xpending
from equipoise.log.read import steps, xlen, xrange, xrevrange
from equipoise.log.records import LogDeleted
from equipoise.log.subscribers import (
    group_acks_up_to,
    group_attach,
    group_nack,
    group_reset,
    group_set,
    group_show,
)
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import integer, simple

__all__ = ["LOG_COMMANDS", "LogCommand"]

LogCommand = Callable[[TopicLog, LogCall], bytes]


def delete(log: TopicLog, call: LogCall) -> bytes:
    """DEL and UNLINK of one key."""
    if not log.exists:
        return integer(0)
    log.change(LogDeleted())
    return integer(1)


def exists(log: TopicLog, call: LogCall) -> bytes:
    return integer(log.exists)


def type_(log: TopicLog, call: LogCall) -> bytes:
    return simple("stream" if log.exists else "none")


# XREAD, XREADGROUP and EQ.READGROUP are in `read`: they read several logs and may block.
LOG_COMMANDS: dict[str, LogCommand] = {
    "xadd": xadd,
    "xlen": xlen,
    "xrange": xrange,
    "xrevrange": xrevrange,
    "xdel": xdel,
    "xtrim": xtrim,
    "xsetid": xsetid,
    "xcfgset": xcfgset,
    "xack": xack,
    "xpending": xpending,
    "xclaim": xclaim,
    "xautoclaim": xautoclaim,
    "xgroup|create": group_create,
    "xgroup|setid": group_setid,
    "xgroup|destroy": group_destroy,
    "xgroup|createconsumer": group_createconsumer,
    "xgroup|delconsumer": group_delconsumer,
    "eq.group|attach": group_attach,
    "eq.group|ackupto": group_acks_up_to,
    "eq.group|nack": group_nack,
    "eq.group|set": group_set,
    "eq.group|reset": group_reset,
    "eq.group|show": group_show,
    "xinfo|stream": info_stream,
    "xinfo|groups": info_groups,
    "xinfo|consumers": info_consumers,
    "del": delete,
    "unlink": delete,
    "exists": exists,
    "type": type_,
    "eq.steps": steps,
}
