"""HELLO, AUTH, PING, ECHO, QUIT, RESET, SELECT, EQ.LINK, EQ.CORRELATE and EQ.DEFER."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.access import DECOY_SECRET, User
from equipoise.access.users import DEFAULT_USER
from equipoise.hub.data.deferred_replies import DeferredReplies
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import Reply, ReplyMode
from equipoise.hub.data.subscribe import forget_session, renew_forms
from equipoise.resp.replies import OK, PONG, bulk, error, null, push, simple, value
from equipoise.resp.requests import parse_integer, text_of

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

# The version of Redis whose pub/sub behaviour this hub follows; clients choose features by it.
REDIS_VERSION = "7.2.0"

# A client that knows a link's name can end its connection: 128 random bits, in hexadecimal or not.
LINK_BYTES_MIN, LINK_BYTES_MAX = 16, 64

# Longest name of a publisher's group.
GROUP_BYTES_MAX = 256

# Longer than a host name with a process and a thread; ten thousand clients with three such names are 8 MB.
CLIENT_NAME_BYTES_MAX = 256
_CLIENT_NAME = re.compile(rb"[!-~]*").fullmatch

_WRONG_PASSWORD = "WRONGPASS invalid username-password pair or user is disabled."
_NO_PASSWORDS = (
    "ERR AUTH <password> called without any password configured for the default user. "
    "Are you sure your configuration is correct?"
)
_HELLO_NEEDS_AUTH = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
    "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
    "the same time"
)
_POSITIONS_NEED_RESP3 = "ERR end EQ subscriptions before HELLO 2: they need RESP3"
_DEFERRED_NEED_RESP3 = "ERR HELLO 2 is not possible after EQ.DEFER: deferred replies need RESP3"
NEEDS_RESP3 = "ERR EQ commands need RESP3: send HELLO 3 first"
BAD_NAME = "ERR Client names cannot contain spaces, newlines or special characters."


def hello(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    proto = session.proto
    if len(command) > 1:
        version = parse_integer(command[1])
        if version is None:
            return "ERR Protocol version is not an integer or out of range"
        if version not in (2, 3):
            return "NOPROTO unsupported protocol version"
        proto = version
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 2
    while at < len(command):
        option, left = command[at].upper(), len(command) - at - 1
        if option == b"AUTH" and left >= 2:
            login = (command[at + 1], command[at + 2])
            at += 3
        elif option == b"SETNAME" and left >= 1:
            name = command[at + 1]
            if not is_client_name(name):
                return BAD_NAME
            at += 2
        else:
            return f"ERR Syntax error in HELLO option '{text_of(command[at])}'"

    if proto == 2 and session.subscription_count(Kind.POSITIONED_NAME.counted_with):
        return _POSITIONS_NEED_RESP3
    if proto == 2 and session.deferred is not None:
        return _DEFERRED_NEED_RESP3

    def proceed() -> bytes:
        if name is not None:
            session.name = name
        if proto != session.proto:
            session.proto = proto
            renew_forms(core, session)
        return _greeting(session)

    if login is not None:
        return _authenticate(core, session, login, proceed)
    if session.user is None:
        return _HELLO_NEEDS_AUTH
    return proceed()


def auth(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    if len(command) > 3:
        return "ERR syntax error"
    if len(command) == 2:
        if core.users.anonymous is not None:
            return _NO_PASSWORDS
        return _authenticate(core, session, (DEFAULT_USER.encode(), command[1]), lambda: OK)
    return _authenticate(core, session, (command[1], command[2]), lambda: OK)


def _authenticate(
    core: HubCore, session: Session, login: tuple[bytes, bytes], proceed: Callable[[], bytes]
) -> bytes | Reply:
    """Check the login in another thread; then `proceed` returns the reply."""
    name, password = login
    user = core.users.get(text_of(name))
    if user is not None and user.is_anonymous:
        core.log_in(session, user)
        return proceed()

    # login_check_timeout_s ends the wait.
    reply = Reply(wait_s=None)

    def done(is_right: bool) -> None:
        # Users may have been reloaded while the secret was checked: only the current ones count.
        known: User | None = core.users.get(text_of(name))
        if not is_right or known is None or user is None or known.secret != user.secret:
            core.stats.logins_failed += 1
            session.stop_timer()
            if session.user is None:
                core.expect_login(session)
            reply.complete(error(_WRONG_PASSWORD))
            return
        problem = core.quotas.login_objection(session.user, known)
        if problem is not None:
            session.stop_timer()
            if session.user is None:
                core.expect_login(session)
            reply.complete(core.refuse(problem))
            return
        core.log_in(session, known)
        reply.complete(proceed())

    # In the queue of logins, this may take longer than unauthenticated_timeout_s, which is not the client's delay.
    session.cut_after(core.limits.login_check_timeout_s, "login not checked in time")
    # An unknown name takes as long as a wrong password, so that names cannot be guessed by timing.
    secret = user.secret if user is not None and user.secret is not None else DECOY_SECRET
    core.shell.verify_secret(secret, password, done, lambda: not session.is_closing)
    return reply


def ping(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if len(command) > 2:
        return "ERR wrong number of arguments for 'ping' command"
    if session.proto == 2 and session.is_subscribed:
        return push((bulk(b"pong"), bulk(command[1] if len(command) == 2 else b"")), 2)
    return bulk(command[1]) if len(command) == 2 else PONG


def echo(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return bulk(command[1])


def quit_(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    session.reply(OK)
    session.finish()
    return b""


def reset(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    forget_session(core, session)
    session.proto = 2
    session.name = session.group = b""
    session.is_never_evicted = False
    session.tags = session.redirected = session.transaction = None
    session.note_input()
    core.places.forget(session)
    session.reply_mode = ReplyMode.ON
    core.greet(session)
    session.push(simple("RESET"))
    return b""


def link(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if not LINK_BYTES_MIN <= len(command[1]) <= LINK_BYTES_MAX:
        return f"ERR a link's name has {LINK_BYTES_MIN} to {LINK_BYTES_MAX} bytes"
    options = [word.upper() for word in command[2:]]
    if options not in ([], [b"ROUTES"]):
        return "ERR syntax error: EQ.LINK name [ROUTES]"
    if options and session.proto != 3:
        return NEEDS_RESP3
    cluster = core.cluster
    if cluster.severing.is_severed(command[1]):
        core.cut(session, "its client continues at another hub")
        return b""
    core.follow(session, command[1])
    if options:
        session.redirected = {}
    if session.proto == 3 and not cluster.is_alone:
        # Before its first plan a hub does not know its own address. Push null then: clients must still learn that the
        # hub is in a cluster, and it may lag behind the others.
        address = cluster.router.own_address(is_tls=session.is_tls)
        session.push(push((bulk(b"eq.here"), null(3) if address is None else bulk(address)), 3))
    core.specs.tell_durable(session.proto, session.push)
    return OK


def correlate(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if len(command[1]) > GROUP_BYTES_MAX:
        return f"ERR a group's name has at most {GROUP_BYTES_MAX} bytes"
    session.group = command[1]
    return OK


def defer(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if session.proto != 3:
        return NEEDS_RESP3
    session.deferred = session.deferred or DeferredReplies(session, core.shell)
    return OK


def select(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    number = parse_integer(command[1])
    if number is None:
        return "ERR value is not an integer or out of range"
    if number != 0:
        return "ERR DB index is out of range"
    return OK


def is_client_name(name: bytes) -> bool:
    """Printable and without blanks, because CLIENT LIST shows it unquoted; of limited length, because it is stored."""
    return len(name) <= CLIENT_NAME_BYTES_MAX and _CLIENT_NAME(name) is not None


def _greeting(session: Session) -> bytes:
    return value(
        {
            "server": "redis",
            "version": REDIS_VERSION,
            "proto": session.proto,
            "id": session.id,
            "mode": "standalone",
            "role": "master",
            "modules": [],
        },
        session.proto,
    )
