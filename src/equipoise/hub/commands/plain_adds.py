"""Combine XADDs without options: of one client in sequence, or of many clients in one loop turn.

Always true: the log, the ids and the replies are the same as if the commands were executed one by one in their order.
Commands that need special handling, because of the client, its permissions or the log, are executed one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.data.gathered_replies import GatheredReplies
from equipoise.hub.data.topic import LANE_PREFIX
from equipoise.hub.logs.live_log import RUN_BYTES, LogStage
from equipoise.hub.logs.log_refusals import late, uncertain
from equipoise.log.append import add_plain, add_run
from equipoise.log.entries import spell_fields

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.gathered_replies import UnsettledReplies
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["add_gathered", "add_several"]


def add_several(core: HubCore, session: Session, commands: list[list[bytes]]) -> bytes | Reply | None:
    """Execute consecutive XADDs without options to one log as one append; None if they are not of this form."""
    logs = core.logs
    try:
        verbs, names, ids, *fields = zip(*commands, strict=True)
    except ValueError:
        return None
    count, name = len(commands), names[0]
    is_alike = verbs.count(b"XADD") == names.count(name) == ids.count(b"*") == count
    if not is_alike or not fields or len(fields) & 1 or logs is None or not core.users.is_open:
        return None
    size = sum([sum(map(len, column)) for column in fields])
    if size > RUN_BYTES or len(name) > core.limits.topic_bytes_max or name.startswith(LANE_PREFIX):
        return None
    live = logs.for_adds(name)
    if live is None:
        return None
    core.stats.commands += count
    session.command = "xadd"
    bodies, now_ms = list(map(spell_fields, zip(*fields, strict=True))), logs.now_ms()
    return live.submit(lambda state: add_run(state, bodies, now_ms), size, count)


def add_gathered(
    core: HubCore,
    unsettled: UnsettledReplies,
    name: bytes,
    sessions: list[Session],
    counts: list[int],
    bodies: list[bytes],
    size: int,
    *,
    is_last: bool,
) -> None:
    """Execute XADDs without options to one log as one append; `counts`: the number of each session's, in order.

    The sessions have no transaction and no pending replies. If the log needs special handling, each session executes
    its commands itself. `is_last`: no other command comes in this turn. Then the append is sent first, and the
    replies are prepared while the bookies write.
    """
    now, logs = core.now(), core.logs
    live = _plain_log(core, name, now)
    replies = None
    if logs is not None and live is not None and True not in [session.is_closing for session in sessions]:
        live.make_room(size)
        replies = add_plain(live.log, bodies, logs.now_ms()) if live.stage is LogStage.OPEN else None
    if live is None or replies is None:
        _add_apart(name, sessions, counts, bodies)
        return
    if is_last:
        live.append_now()
    else:
        live.changed()
    rows, at = [], 0
    for session, count in zip(sessions, counts, strict=True):
        session.last_at = now
        session.command = "xadd"
        reply = replies[at] if count == 1 else b"".join(replies[at : at + count])
        rows.append((session, reply, count))
        at += count
    core.stats.commands += at
    core.stats.input_bytes += size
    owed = GatheredReplies(unsettled, rows, late=late(name), failed=uncertain(name))
    (live.when_appended if is_last else live.when_committed)(owed.settle)


def _plain_log(core: HubCore, name: bytes, now: float) -> LiveLog | None:
    """The log, if XADDs may be executed on it at once, without a check of permissions."""
    logs = core.logs
    if logs is None or not core.users.is_open or len(name) > core.limits.topic_bytes_max:
        return None
    if now > core.awake_until or core.turns.queue.waiting or name.startswith(LANE_PREFIX):
        return None
    live = logs.for_adds(name)
    return live if live is not None and live.is_open else None


def _add_apart(name: bytes, sessions: list[Session], counts: list[int], bodies: list[bytes]) -> None:
    """Pass each session its own commands, as if it had received them."""
    at = 0
    for session, count in zip(sessions, counts, strict=True):
        session.receive(b"".join([_spelled(name, body) for body in bodies[at : at + count]]))
        at += count


def _spelled(name: bytes, body: bytes) -> bytes:
    """The encoded XADD of these fields."""
    words, _, fields = body.partition(b"\r\n")
    return b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n%b" % (int(words[1:]) + 3, len(name), name, fields)
