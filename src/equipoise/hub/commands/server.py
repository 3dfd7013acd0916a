"""TIME, ROLE, ACL, MEMORY, SLOWLOG, LATENCY and FLUSHALL, for monitoring tools and clients.

The values are those of the hub. For features that a hub lacks (keys, replicas, a log of slow commands) it replies like
a server on which they are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.access import Action, User, Users
from equipoise.hub.access.quotas import Resource, topic_bytes
from equipoise.hub.commands.spec import CommandSpec, Handler, container
from equipoise.hub.telemetry.gauges import SPIKE_S, LagSpikes
from equipoise.resp.replies import OK, array, bulk, integer, null, value, verbatim
from equipoise.resp.requests import parse_integer, text_of

if TYPE_CHECKING:
    from equipoise.hub.access.quotas import Quotas
    from equipoise.hub.data.ports import Shell

__all__ = ["LAG_EVENT", "specs"]

# The event of LATENCY: the delay of the event loop.
LAG_EVENT = "event-loop"
_OPERATORS_ONLY = "NOPERM only a user with operate = [\"*\"] may use '{}'"
_ADMIN = ("admin", "noscript", "loading", "stale")
_DANGEROUS = ("@admin", "@slow", "@dangerous")


class ServerClient(Protocol):
    """The interface of a session to these commands."""

    @property
    def user(self) -> User | None: ...
    @property
    def proto(self) -> int: ...
    @property
    def is_operator(self) -> bool: ...
    def may(self, action: Action, name: bytes) -> bool: ...


class _Backlogs(Protocol):
    @property
    def bytes(self) -> int: ...


class Served(Protocol):
    """The interface of the hub to these commands."""

    @property
    def shell(self) -> Shell: ...
    @property
    def users(self) -> Users: ...
    @property
    def quotas(self) -> Quotas: ...
    @property
    def lag_spikes(self) -> LagSpikes: ...
    @property
    def backlogs(self) -> _Backlogs: ...
    @property
    def sessions(self) -> Mapping[int, Any]: ...


def time(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    seconds, micros = divmod(int(core.shell.wall_time() * 1_000_000), 1_000_000)
    return array((bulk(b"%d" % seconds), bulk(b"%d" % micros)))


def role(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    """Always a master without replicas: the homes of topics are not Redis roles."""
    return array((bulk(b"master"), integer(0), array(())))


def flush(core: Served, session: ServerClient, command: list[bytes]) -> bytes | str:
    """Accepted without effect: a hub has no keys."""
    if len(command) > 2 or (len(command) == 2 and command[1].lower() not in (b"async", b"sync")):
        return "ERR syntax error"
    return OK


# --- ACL


def whoami(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    assert session.user is not None, "the command needs authentication"
    return bulk(session.user.name.encode())


def acl_users(core: Served, session: ServerClient, command: list[bytes]) -> bytes | str:
    if not session.is_operator:
        return _OPERATORS_ONLY.format("acl|users")
    return array(bulk(user.name.encode()) for user in _users(core))


def acl_list(core: Served, session: ServerClient, command: list[bytes]) -> bytes | str:
    """The rules in Redis's notation, as far as it can express them; secrets are not shown, not even as digests."""
    if not session.is_operator:
        return _OPERATORS_ONLY.format("acl|list")
    return array(bulk(_rule(user).encode("utf-8", "surrogateescape")) for user in _users(core))


def _users(core: Served) -> list[User]:
    anonymous = core.users.anonymous
    return [anonymous] if core.users.is_open and anonymous is not None else list(core.users)


def _rule(user: User) -> str:
    patterns = dict.fromkeys(
        glob.pattern.decode("utf-8", "surrogateescape")
        for action in (Action.PUBLISH, Action.SUBSCRIBE)
        for glob in user.grants.get(action, ())
    )
    granted = " ".join(f"&{pattern}" for pattern in patterns if pattern) or "resetchannels"
    commands = "+@all" if user.is_operator else "+@all -@admin"
    return f"user {user.name} on {'nopass' if user.is_anonymous else '#hidden'} {granted} {commands}"


def categories(table: Mapping[bytes, CommandSpec]) -> Handler:
    def cat(core: Served, session: ServerClient, command: list[bytes]) -> bytes | str:
        specs = {spec.name: spec for spec in table.values()}
        every = [one for spec in specs.values() for one in (spec, *spec.subcommands.values())]
        if len(command) == 2:
            names = dict.fromkeys(name for spec in every for name in spec.categories)
            return array(bulk(name.removeprefix("@").encode()) for name in names)
        wanted = "@" + text_of(command[2]).lower()
        found = [spec.name for spec in every if wanted in spec.categories]
        if not found:
            return f"ERR Unknown category '{text_of(command[2])[:128]}'"
        return array(bulk(name.encode()) for name in found)

    return cat


# --- MEMORY


def memory_usage(core: Any, session: ServerClient, command: list[bytes]) -> bytes:
    """The memory of a topic, as counted against topics_bytes_max."""
    name = command[2]
    is_shown = any(session.may(action, name) for action in (Action.SUBSCRIBE, Action.PUBLISH))
    if name not in core.index.topics or not is_shown:
        return null(session.proto)
    return integer(topic_bytes(name))


def memory_stats(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    resident_bytes = core.shell.resident_bytes()
    return value(
        {
            "total.allocated": resident_bytes,
            "clients.normal": core.backlogs.bytes,
            "clients.count": len(core.sessions),
            "topics.bytes": core.quotas.total(Resource.TOPIC_BYTES),
            "keys.count": 0,
            "dataset.bytes": 0,
            "allocator.resident": resident_bytes,
        },
        session.proto,
    )


def memory_doctor(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    return verbatim("A hub has no keys: see INFO memory, and the limits in its settings.\n", session.proto)


# --- SLOWLOG


def slowlog_get(core: Served, session: ServerClient, command: list[bytes]) -> bytes | str:
    if len(command) > 3 or (len(command) == 3 and parse_integer(command[2]) is None):
        return "ERR count should be greater than or equal to -1"
    return array(())


def slowlog_len(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    return integer(0)


def slowlog_reset(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    return OK


# --- LATENCY


def latency_latest(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    spikes = core.lag_spikes
    if not spikes.latest:
        return array(())
    at_s, lag_ms = spikes.latest[-1]
    row = (bulk(LAG_EVENT.encode()), integer(at_s), integer(lag_ms), integer(spikes.worst_ms))
    return array((array(row),))


def latency_history(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    spikes = core.lag_spikes.latest if text_of(command[2]).lower() == LAG_EVENT else ()
    return array(array(map(integer, spike)) for spike in spikes)


def latency_reset(core: Served, session: ServerClient, command: list[bytes]) -> bytes | str:
    if not session.is_operator:
        return _OPERATORS_ONLY.format("latency|reset")
    names = [text_of(word).lower() for word in command[2:]]
    return integer(int((not names or LAG_EVENT in names) and core.lag_spikes.clear()))


def latency_doctor(core: Served, session: ServerClient, command: list[bytes]) -> bytes:
    spikes = core.lag_spikes
    words = (
        f"The event loop was late {len(spikes.latest)} times recently, by {spikes.worst_ms} ms at worst: the hub "
        "overloads its core at times, or shares it with other processes.\n"
        if spikes.latest
        else f"The event loop was never late by {1e3 * SPIKE_S:.0f} ms or more.\n"
    )
    return verbatim(words, session.proto)


def specs(table: Mapping[bytes, CommandSpec]) -> list[CommandSpec]:
    """The rows of the table, which is complete only after they are created."""

    def of(name: str, arity: int, run: Handler, since: str, summary: str, **more: Any) -> CommandSpec:
        facts: dict[str, Any] = {"flags": _ADMIN, "categories": _DANGEROUS, "group": "server", **more}
        return CommandSpec(name=name, arity=arity, run=run, summary=summary, since=since, **facts)

    def with_rows(name: str, since: str, summary: str, *rows: CommandSpec) -> CommandSpec:
        return container(name, since, "server", summary, {row.name.partition("|")[2]: row for row in rows})

    mild: dict[str, Any] = {"flags": ("noscript", "loading", "stale"), "categories": ("@slow",)}
    nothing: dict[str, Any] = {
        "flags": ("loading", "stale"),
        "categories": ("@keyspace", "@slow", "@dangerous"),
    }
    return [
        of(
            "time",
            1,
            time,
            "2.6.0",
            "Returns the hub's clock.",
            flags=("loading", "stale", "fast"),
            categories=("@fast",),
        ),
        of("role", 1, role, "2.8.12", "Returns that a hub is no replica."),
        of("flushall", -1, flush, "1.0.0", "Accepted; a hub has no keys.", **nothing),
        of("flushdb", -1, flush, "1.0.0", "Accepted; a hub has no keys.", **nothing),
        with_rows(
            "acl",
            "6.0.0",
            "Users and permissions, read-only.",
            of("acl|whoami", 2, whoami, "6.0.0", "Returns the user of this connection.", **mild),
            of("acl|users", 2, acl_users, "6.0.0", "Lists the users."),
            of("acl|list", 2, acl_list, "6.0.0", "Lists the users with their permissions."),
            of(
                "acl|cat", -2, categories(table), "6.0.0", "Lists categories, or the commands of one.", **mild
            ),
        ),
        with_rows(
            "memory",
            "4.0.0",
            "Memory use.",
            of("memory|usage", -3, memory_usage, "4.0.0", "Returns the memory use of a topic.", **mild),
            of("memory|stats", 2, memory_stats, "4.0.0", "Returns the memory use of the hub.", **mild),
            of("memory|doctor", 2, memory_doctor, "4.0.0", "Returns a hint.", **mild),
        ),
        with_rows(
            "slowlog",
            "2.2.12",
            "Accepted; see LATENCY.",
            of("slowlog|get", -2, slowlog_get, "2.2.12", "Returns an empty log."),
            of("slowlog|len", 2, slowlog_len, "2.2.12", "Returns 0."),
            of("slowlog|reset", 2, slowlog_reset, "2.2.12", "Accepted."),
        ),
        with_rows(
            "latency",
            "2.8.13",
            "Delays of the hub's event loop.",
            of("latency|latest", 2, latency_latest, "2.8.13", "Returns the latest and the worst delay."),
            of("latency|history", 3, latency_history, "2.8.13", "Returns delays and their times."),
            of("latency|reset", -2, latency_reset, "2.8.13", "Clears the recorded delays."),
            of("latency|doctor", 2, latency_doctor, "2.8.13", "Explains the delays."),
        ),
    ]
