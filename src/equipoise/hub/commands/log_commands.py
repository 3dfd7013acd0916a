"""Redis's stream commands, DEL, UNLINK, EXISTS and TYPE, and EQ.STEPS, EQ.LOGS, EQ.GROUP and EQ.READGROUP.

`equipoise.log` defines their effects. This module determines their topics, checks permissions, and blocks reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.access.denials import RESERVED, denial, too_long
from equipoise.hub.commands import appending, resuming
from equipoise.hub.commands.keys import unknown_command
from equipoise.hub.commands.spec import CommandSpec, Handler, container
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.subscribe import compile_pattern
from equipoise.hub.data.topic import LANE_PREFIX
from equipoise.hub.logs.hub_logs import combined
from equipoise.hub.logs.log_request import LogRequest
from equipoise.hub.logs.shared_read import SharedRead
from equipoise.log.append import xadd
from equipoise.log.call import LogCall
from equipoise.log.errors import LogCommandError
from equipoise.log.read import parse_read
from equipoise.resp.replies import array, bulk, error, integer, push
from equipoise.resp.requests import parse_integer
from equipoise.store.tree import TOPIC_FOLDERS

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session
    from equipoise.model.glob import Glob

__all__ = ["COMMAND_BYTES_MAX", "GROUP", "log_denial", "specs"]

# Redis's group of these commands.
GROUP = "stream"
# Most bytes in one command, or in one transaction on a log, which has to fit into one entry of a ledger.
COMMAND_BYTES_MAX = 4 * 1024 * 1024
_TOO_LARGE = f"ERR more than {COMMAND_BYTES_MAX} bytes in one append: add them in several commands"

_READ, _WRITE = (Action.SUBSCRIBE,), (Action.PUBLISH,)
_GROUPS = (Action.SUBSCRIBE, Action.DURABLE)
_NEEDED: dict[str, tuple[Action, ...]] = {
    **dict.fromkeys(("xlen", "xrange", "xrevrange", "xread", "xinfo", "xpending", "exists", "type"), _READ),
    "eq.steps": _READ,
    **dict.fromkeys(("xadd", "xdel", "xtrim", "xsetid", "xcfgset"), _WRITE),
    **dict.fromkeys(("xreadgroup", "xack", "xclaim", "xautoclaim", "xgroup"), _GROUPS),
    **dict.fromkeys(("eq.group", "eq.readgroup"), _GROUPS),
    **dict.fromkeys(("del", "unlink"), (Action.OPERATE,)),
}
# Folders of topics in the store that one EQ.LOGS reads.
_FOLDERS_AT_ONCE = 16
_SEVERAL = frozenset(("del", "unlink", "exists"))


def _names(command: list[bytes]) -> list[bytes]:
    """The topics that a command concerns."""
    name = command[0].lower()
    if name in (b"xread", b"xreadgroup", b"eq.readgroup"):
        return parse_read(command).keys
    if name in (b"xgroup", b"xinfo", b"eq.group"):
        return command[2:3]
    return command[1:] if name.decode() in _SEVERAL else command[1:2]


def log_denial(core: HubCore, session: Session, command: list[bytes]) -> str | None:
    """The error text if the client may not run a command on logs; None if it may, or if the syntax is wrong."""
    if core.logs is None:
        return unknown_command(command)
    if problem := core.logs.missing():
        return problem
    if sum(map(len, command)) > COMMAND_BYTES_MAX:
        return _TOO_LARGE
    try:
        names = _names(command)
    except LogCommandError:
        return None
    for name in names:
        if len(name) > core.limits.topic_bytes_max:
            return too_long(core)
        if name.startswith(LANE_PREFIX):
            return RESERVED
        for action in _NEEDED[command[0].lower().decode()]:
            if not session.may(action, name):
                return denial(session, action, name)
    return _dead_letter_denial(session, command)


def _dead_letter_denial(session: Session, command: list[bytes]) -> str | None:
    """The error text if the client has no permission to publish to the dead-letter topic that it names."""
    if command[0].lower() == b"eq.group" and command[1].lower() == b"set":
        for option, name in zip(command[4::2], command[5::2], strict=False):
            if option.lower() == b"deadletter" and not session.may(Action.PUBLISH, name):
                return denial(session, Action.PUBLISH, name)
    return None


def _on_one(name: str) -> Handler:
    """A command on one log."""
    key_at = 2 if "|" in name else 1
    may_create = name in ("xadd", "xgroup|create", "xcfgset", "eq.group|attach")

    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
        problem = log_denial(core, session, command)
        if problem is not None:
            return problem
        assert core.logs is not None, "otherwise it is denied"
        key, refusal = command[key_at], ""
        if may_create and not session.may(Action.CREATE, key):
            refusal = denial(session, Action.CREATE, key)
        return core.logs.submit(
            key, LogRequest(name, command, session.proto, refusal, is_joined=session.is_gathering)
        )

    return run


def add(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """XADD, like `_on_one`, with a fast path without permission checks if access is open."""
    logs = core.logs
    size = sum(map(len, command))
    name = command[1]
    is_plain = core.users.is_open and len(name) <= core.limits.topic_bytes_max
    if logs is None or not is_plain or size > COMMAND_BYTES_MAX or name.startswith(LANE_PREFIX):
        return _add_carefully(core, session, command)
    live = logs.for_adds(name)
    if live is None:
        return _add_carefully(core, session, command)
    call = LogCall(command, logs.now_ms(), session.proto)
    return live.submit(lambda state: xadd(state, call), size)


_add_carefully = _on_one("xadd")
_attach = _on_one("eq.group|attach")


def attach(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """Attach a durable subscriber; say so if the topic is not durable: what is published to it is not in its log."""
    outcome = _attach(core, session, command)
    spec = core.specs.of_name(command[2])
    if not isinstance(outcome, str) and session.proto == 3 and (spec is None or spec.durability is None):
        session.write(push((bulk(b"eq.undurable"), bulk(command[2])), 3))
    return outcome


def _on_several(name: str) -> Handler:
    """A command on several logs that replies with a count."""

    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
        problem = log_denial(core, session, command)
        if problem is not None:
            return problem
        assert core.logs is not None, "otherwise it is denied"
        request = LogRequest(name, command, session.proto, is_joined=session.is_gathering)
        parts = [core.logs.submit(key, request) for key in command[1:]]
        return combined(parts, core.now(), _sum)

    return run


def _sum(replies: list[bytes]) -> bytes:
    failed = next((reply for reply in replies if reply[:1] != b":"), None)
    return failed or integer(sum(int(reply[1:]) for reply in replies))


def read(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """XREAD, XREADGROUP and EQ.READGROUP."""
    problem = log_denial(core, session, command)
    if problem is not None:
        return problem
    assert core.logs is not None, "otherwise it is denied"
    try:
        wanted = parse_read(command)
    except LogCommandError as refusal:
        return refusal.text
    # Inside a transaction no read blocks, as in Redis.
    return core.logs.read(
        wanted,
        session.proto,
        lambda: log_denial(core, session, command),
        may_wait=not session.is_gathering,
    )


def read_together(core: HubCore, session: Session, command: list[bytes]) -> bool:
    """Let an XREAD share its wait with equal ones of other sessions.

    False, with no effect, if it need not block, or needs special handling. Only for a session without pending replies.
    """
    logs = core.logs
    if logs is None or not core.users.is_open or session.last_at > core.awake_until:
        return False
    spelled = b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in command])
    key = b"*%d\r\n%b%d" % (len(command), spelled, session.proto)
    shared = logs.shared.get(key)
    if shared is None:
        try:
            wanted = parse_read(command)
        except LogCommandError:
            return False
        if log_denial(core, session, command) is not None or not logs.would_wait(wanted):
            return False
        shared = SharedRead(
            logs,
            key,
            wanted,
            session.proto,
            denial=lambda member: log_denial(core, member, command),
            stats=core.stats,
        )
        shared.begin(session)
    else:
        shared.join(session)
    core.stats.commands += 1
    session.command = "xread"
    return True


def names(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """EQ.LOGS cursor [MATCH pattern] → the next cursor, 0 after the last page, and topics that have or had a log."""
    logs, folder = core.logs, parse_integer(command[1])
    if logs is None:
        return unknown_command(command)
    if folder is None or not 0 <= folder < TOPIC_FOLDERS:
        return "ERR a cursor is 0 or the one of the previous reply"
    glob: Glob | None = None
    if len(command) > 2:
        if len(command) != 4 or command[2].upper() != b"MATCH":
            return "ERR syntax error: EQ.LOGS cursor [MATCH pattern]"
        compiled = compile_pattern(core, command[3])
        if isinstance(compiled, str):
            return compiled
        glob = compiled
    following = min(folder + _FOLDERS_AT_ONCE, TOPIC_FOLDERS) % TOPIC_FOLDERS
    reply = Reply()

    def found(all_names: list[bytes] | None) -> None:
        if not reply.is_wanted:
            return
        if all_names is None:
            reply.complete(error("TRYAGAIN the store does not reply"))
            return
        shown = [
            bulk(name)
            for name in all_names
            if (glob is None or glob.matches(name)) and session.may(Action.SUBSCRIBE, name)
        ]
        reply.complete(array((bulk(b"%d" % following), array(shown))))

    logs.list_names(range(folder, following or TOPIC_FOLDERS), found)
    return reply


def specs() -> list[CommandSpec]:
    write, fast_write = ("write", "denyoom"), ("write", "denyoom", "fast")
    rows = [
        resuming.spec(),
        appending.spec(),
        _spec("xadd", -5, "5.0.0", "Appends an entry to the log of a topic.", fast_write),
        _spec("xlen", 2, "5.0.0", "Counts the entries of a log.", ("readonly", "fast")),
        _spec("xrange", -4, "5.0.0", "Returns entries between two ids.", ("readonly",)),
        _spec("xrevrange", -4, "5.0.0", "Returns entries between two ids, last first.", ("readonly",)),
        _spec("xdel", -3, "5.0.0", "Deletes entries.", ("write", "fast")),
        _spec("xtrim", -4, "5.0.0", "Deletes the oldest entries.", ("write",)),
        _spec("xsetid", -3, "5.0.0", "Sets the last id of a log.", fast_write),
        _spec("xcfgset", -2, "8.6.0", "Sets how long tokens of producers are remembered.", ("write", "fast")),
        _spec("xack", -4, "5.0.0", "Acknowledges entries of a group.", ("write", "fast")),
        _spec("xpending", -3, "5.0.0", "Lists entries without an ack.", ("readonly",)),
        _spec("xclaim", -6, "5.0.0", "Assigns pending entries to a consumer.", ("write", "fast")),
        _spec("xautoclaim", -6, "6.2.0", "Assigns old pending entries to a consumer.", ("write", "fast")),
        _spec(
            "eq.steps",
            5,
            "0.1.0",
            "Returns ids that split the entries after an id into ranges.",
            ("readonly",),
        ),
        CommandSpec(
            name="eq.logs",
            arity=-2,
            run=names,
            summary="Lists topics that have or had a log.",
            since="0.1.0",
            group=GROUP,
            flags=("readonly",),
            categories=("@read", "@stream", "@slow"),
            concerns_logs=True,
        ),
        _spec("type", 2, "1.0.0", "Returns whether a log exists.", ("readonly", "fast"), group="generic"),
        _spec("del", -2, "1.0.0", "Deletes logs.", ("write",), group="generic"),
        _spec("unlink", -2, "4.0.0", "Deletes logs.", ("write", "fast"), group="generic"),
        _spec("exists", -2, "1.0.0", "Counts the logs that exist.", ("readonly", "fast"), group="generic"),
        _waiting(
            "xread",
            -4,
            "Returns new entries of logs; can block until there are any.",
            ("readonly", "blocking", "movablekeys"),
        ),
        _waiting(
            "xreadgroup",
            -7,
            "Returns entries to a consumer of a group; can block until there are any.",
            ("write", "blocking", "movablekeys"),
        ),
        _waiting(
            "eq.readgroup",
            -7,
            "Returns entries to a durable subscriber with their delivery counts; can block until there are any.",
            ("write", "blocking", "movablekeys"),
        ),
    ]
    return rows + [replace(each, is_pipelined=True, concerns_logs=True) for each in _containers(write)]


def _containers(write: tuple[str, ...]) -> tuple[CommandSpec, ...]:
    groups = {
        "create": _spec("xgroup|create", -5, "5.0.0", "Creates a group.", write),
        "setid": _spec("xgroup|setid", -5, "5.0.0", "Sets the last delivered id of a group.", ("write",)),
        "destroy": _spec("xgroup|destroy", 4, "5.0.0", "Deletes a group.", ("write",)),
        "createconsumer": _spec("xgroup|createconsumer", 5, "6.2.0", "Creates a consumer.", write),
        "delconsumer": _spec("xgroup|delconsumer", 5, "5.0.0", "Deletes a consumer.", ("write",)),
    }
    facts = {
        "stream": _spec("xinfo|stream", -3, "5.0.0", "Describes a log.", ("readonly",)),
        "groups": _spec("xinfo|groups", 3, "5.0.0", "Describes the groups of a log.", ("readonly",)),
        "consumers": _spec(
            "xinfo|consumers", 4, "5.0.0", "Describes the consumers of a group.", ("readonly",)
        ),
    }
    subscribers = {
        "attach": _spec("eq.group|attach", -7, "1.0.0", "Attaches a durable subscriber.", write),
        "ackupto": _spec("eq.group|ackupto", 6, "1.0.0", "Acknowledges entries up to an id.", ("write",)),
        "nack": _spec(
            "eq.group|nack", -7, "1.0.0", "Rejects entries: they are delivered again later.", ("write",)
        ),
        "set": _spec("eq.group|set", -4, "1.0.0", "Sets the retries of a group.", ("write",)),
        "reset": _spec("eq.group|reset", 5, "1.0.0", "Restarts a group after an id.", ("write",)),
        "show": _spec("eq.group|show", 4, "1.0.0", "Describes a group.", ("readonly",)),
    }
    return (
        container("eq.group", "1.0.0", GROUP, "Commands of durable subscribers.", subscribers),
        container("xgroup", "5.0.0", GROUP, "Commands about groups of consumers.", groups),
        container("xinfo", "5.0.0", GROUP, "Commands about logs.", facts),
    )


def _spec(
    name: str, arity: int, since: str, summary: str, flags: tuple[str, ...], *, group: str = GROUP
) -> CommandSpec:
    kind = "@write" if "write" in flags else "@read"
    speed = "@fast" if "fast" in flags else "@slow"
    own: dict[str, Handler] = {"xadd": add, "eq.group|attach": attach}
    run = own.get(name) or (_on_several if name in _SEVERAL else _on_one)(name)
    return CommandSpec(
        name=name,
        arity=arity,
        run=run,
        summary=summary,
        since=since,
        group=group,
        flags=flags,
        categories=(kind, "@stream" if group == GROUP else "@keyspace", speed),
        is_pipelined=True,
        concerns_logs=True,
    )


def _waiting(name: str, arity: int, summary: str, flags: tuple[str, ...]) -> CommandSpec:
    return CommandSpec(
        name=name,
        arity=arity,
        run=read,
        summary=summary,
        since="5.0.0",
        group=GROUP,
        flags=flags,
        categories=("@write" if "write" in flags else "@read", "@stream", "@slow", "@blocking"),
        concerns_logs=True,
    )
