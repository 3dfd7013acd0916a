"""CLIENT and its subcommands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from equipoise.hub.commands.connection import BAD_NAME, is_client_name
from equipoise.hub.data.held_subscriptions import NO_SUBSCRIPTIONS
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import ReplyMode
from equipoise.hub.data.turns import by_turns
from equipoise.resp.replies import OK, array, bulk, integer, mapping, null, set_of, verbatim
from equipoise.resp.requests import parse_integer, text_of

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session

_OPERATORS_ONLY = "NOPERM only a user with operate = [\"*\"] may use '{}'"
_TYPES = ("normal", "master", "replica", "slave", "pubsub")

Filter = Callable[["Session"], bool]


def client_id(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return integer(session.id)


def getname(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return bulk(session.name) if session.name else null(session.proto)


def setname(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if not is_client_name(command[2]):
        return BAD_NAME
    session.name = command[2]
    return OK


def setinfo(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    option = text_of(command[2])
    if option.lower() not in ("lib-name", "lib-ver"):
        return f"ERR Unrecognized option '{option}'"
    if not is_client_name(command[3]):
        return f"ERR {option} cannot contain spaces, newlines or special characters."
    if option.lower() == "lib-name":
        session.lib_name = command[3]
    else:
        session.lib_version = command[3]
    return OK


def info(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return verbatim(describe(core, session) + "\n", session.proto)


def list_(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    if not session.is_operator:
        return _OPERATORS_ONLY.format("client|list")
    chosen = list(core.sessions.values())
    if len(command) == 4 and command[2].lower() == b"type":
        wanted = text_of(command[3]).lower()
        if wanted not in _TYPES:
            return f"ERR Unknown client type '{text_of(command[3])}'"
        chosen = [other for other in chosen if _is_of_type(other, wanted)]
    elif len(command) > 3 and command[2].lower() == b"id":
        numbers = [parse_integer(argument) for argument in command[3:]]
        if None in numbers:
            return "ERR Invalid client ID"
        chosen = [core.sessions[n] for n in numbers if n in core.sessions]
    elif len(command) > 2:
        return "ERR syntax error"
    lines: list[str] = []

    def steps() -> Iterator[None]:
        for other in chosen:
            lines.append(describe(core, other) + "\n")
            yield

    return by_turns(core, session, steps(), lambda: verbatim("".join(lines), session.proto))


def no_evict(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """Stored for `CLIENT` replies only: a hub disconnects by output limits, and has no other eviction."""
    word = command[2].lower()
    if word not in (b"on", b"off"):
        return "ERR syntax error"
    session.is_never_evicted = word == b"on"
    return OK


def no_touch(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """Accepted without effect: there are no keys to touch."""
    return OK if command[2].lower() in (b"on", b"off") else "ERR syntax error"


def getredir(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return integer(-1)


def tracking(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """Rejected if on: a hub has no keys, so it cannot send invalidations."""
    if command[2].lower() == b"off":
        return OK
    return "ERR client-side caching needs keys, and a hub has none"


def trackinginfo(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    facts = {
        bulk(b"flags"): set_of((bulk(b"off"),), session.proto),
        bulk(b"redirect"): integer(-1),
        bulk(b"prefixes"): array(()),
    }
    return mapping(facts, session.proto)


def caching(core: HubCore, session: Session, command: list[bytes]) -> str:
    mode = "the client is in tracking mode with OPTIN or OPTOUT mode enabled"
    return f"ERR CLIENT CACHING can be called only when {mode}"


def unblock(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if parse_integer(command[2]) is None:
        return "ERR value is not an integer or out of range"
    return integer(0)


def unpause(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return OK


def reply(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    match command[2].lower():
        case b"on":
            session.reply_mode = ReplyMode.ON
            session.reply(OK)
        case b"off":
            session.reply_mode = ReplyMode.OFF
        case b"skip":
            if session.reply_mode is not ReplyMode.OFF:
                session.reply_mode = ReplyMode.SKIP_NEXT
        case _:
            return "ERR syntax error"
    return b""


def kill(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if not session.is_operator:
        return _OPERATORS_ONLY.format("client|kill")
    if len(command) == 3:
        address = text_of(command[2])
        victims = [other for other in core.sessions.values() if other.address == address]
        if not victims:
            return "ERR No such client"
        return _end(core, session, victims, OK)
    parsed = _parse_filters(core, command)
    if isinstance(parsed, str):
        return parsed
    filters, skips_me = parsed
    victims = [
        other
        for other in core.sessions.values()
        if all(matches(other) for matches in filters) and not (skips_me and other is session)
    ]
    return _end(core, session, victims, integer(len(victims)))


def _parse_filters(core: HubCore, command: list[bytes]) -> tuple[list[Filter], bool] | str:
    filters: list[Filter] = []
    skips_me = True
    if len(command) % 2:
        return "ERR syntax error"
    for at in range(2, len(command), 2):
        option, word = command[at].lower(), text_of(command[at + 1])
        if option == b"skipme":
            if word.lower() not in ("yes", "no"):
                return "ERR syntax error"
            skips_me = word.lower() == "yes"
            continue
        made = _filter(core, option, word)
        if isinstance(made, str):
            return made
        filters.append(made)
    return filters, skips_me


def _filter(core: HubCore, option: bytes, word: str) -> Filter | str:
    match option:
        case b"id":
            number = parse_integer(word.encode("utf-8", "surrogateescape"))
            if number is None or number < 1:
                return "ERR client-id should be greater than 0"
            return lambda other: other.id == number
        case b"type":
            if word.lower() not in _TYPES:
                return f"ERR Unknown client type '{word}'"
            return lambda other: _is_of_type(other, word.lower())
        case b"addr":
            return lambda other: other.address == word
        case b"laddr":
            return lambda other: other.local_address == word
        case b"user":
            if core.users.get(word) is None:
                return f"ERR No such user '{word}'"
            return lambda other: other.user is not None and other.user.name == word
        case _:
            return "ERR syntax error"


def _end(core: HubCore, session: Session, victims: list[Session], reply: bytes) -> bytes:
    """Disconnect the clients at once; a client that kills itself receives its reply, and executes nothing after."""
    for other in victims:
        if other is not session:
            core.cut(other, f"CLIENT KILL by client id={session.id}", is_slow=False)
    if session not in victims:
        return reply
    session.reply(reply)
    session.finish()
    return b""


def _is_of_type(session: Session, wanted: str) -> bool:
    return wanted == ("pubsub" if session.is_subscribed else "normal")


def describe(core: HubCore, session: Session) -> str:
    """The line of CLIENT LIST. Fields that a hub does not have keep Redis's neutral values."""
    now = core.now()
    held = session.subscriptions or NO_SUBSCRIPTIONS
    backlog = core.backlogs.lagging.get(session)
    pieces, unsent_bytes = (len(backlog.pieces), backlog.bytes) if backlog else (0, 0)
    user = session.user.name if session.user is not None else "(none)"
    fields = {
        "id": session.id,
        "addr": session.address,
        "laddr": session.local_address,
        "fd": session.id,
        "name": text_of(session.name),
        "age": int(now - session.created_at),
        "idle": int(now - session.last_at),
        "flags": "P" if session.is_subscribed else "N",
        "db": 0,
        "sub": len(held.of(Kind.NAME)) + len(held.of(Kind.POSITIONED_NAME)),
        "psub": len(held.of(Kind.PATTERN)) + len(held.of(Kind.POSITIONED_PATTERN)),
        "ssub": len(held.of(Kind.SHARD)),
        "multi": -1 if session.transaction is None else len(session.transaction.commands),
        "qbuf": session.unread_bytes,
        "qbuf-free": 0,
        "argv-mem": 0,
        "multi-mem": 0 if session.transaction is None else session.transaction.bytes,
        "rbs": 0,
        "rbp": 0,
        "obl": 0,
        "oll": pieces,
        "omem": unsent_bytes,
        "tot-mem": unsent_bytes,
        "events": "rw" if backlog else "r",
        "cmd": session.command or "NULL",
        "user": user,
        "redir": -1,
        "resp": session.proto,
        "lib-name": text_of(session.lib_name),
        "lib-ver": text_of(session.lib_version),
    }
    return " ".join(f"{key}={value}" for key, value in fields.items())
