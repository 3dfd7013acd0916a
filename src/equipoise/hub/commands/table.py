"""The table of commands. Arities, flags, categories and groups are those of Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.cluster.link import handshake
from equipoise.hub.commands import (
    clients,
    connection,
    content,
    introspection,
    log_commands,
    positioned,
    pubsub,
    server,
    streams,
    telemetry,
    topics,
    transactions,
    where,
)
from equipoise.hub.commands.spec import CommandSpec, Handler, container
from equipoise.hub.data.kinds import Kind

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session

_STRANGERS = ("noscript", "loading", "stale", "fast", "no_auth", "allow_busy")
_FAST = ("loading", "stale", "fast")
_QUIET = ("noscript", "loading", "stale")
_ADMIN = ("admin", "noscript", "loading", "stale")
_PUBSUB = ("pubsub", "noscript", "loading", "stale")
_CONNECTION = ("@fast", "@connection")
_SLOW_CONNECTION = ("@slow", "@connection")
_SLOW_ADMIN = ("@admin", "@slow", "@dangerous", "@connection")


def _greetings() -> list[CommandSpec]:
    def of(name: str, arity: int, run: Handler, since: str, summary: str) -> CommandSpec:
        return CommandSpec(
            name=name,
            arity=arity,
            run=run,
            summary=summary,
            since=since,
            group="connection",
            flags=_STRANGERS,
            categories=_CONNECTION,
            is_open_to_strangers=True,
            runs_while_subscribed=name in ("quit", "reset"),
        )

    return [
        of("hello", -1, connection.hello, "6.0.0", "Selects the protocol version."),
        of("auth", -2, connection.auth, "1.0.0", "Authenticates the client."),
        of("quit", -1, connection.quit_, "1.0.0", "Ends the connection once all replies are sent."),
        of("reset", 1, connection.reset, "6.2.0", "Resets the connection."),
    ]


def _small_talk() -> list[CommandSpec]:
    def of(name: str, arity: int, run: Handler, summary: str, **more: object) -> CommandSpec:
        facts: dict[str, object] = {"flags": _FAST, "categories": _CONNECTION, "group": "connection", **more}
        return CommandSpec(name=name, arity=arity, run=run, summary=summary, since="1.0.0", **facts)  # type: ignore[arg-type]  # the three facts above, or others of the same types

    return [
        of(
            "ping",
            -1,
            connection.ping,
            "Returns PONG.",
            flags=("fast",),
            tips=("request_policy:all_shards", "response_policy:all_succeeded"),
            runs_while_subscribed=True,
        ),
        of("echo", 2, connection.echo, "Returns its argument."),
        of("select", 2, connection.select, "Accepts database 0, the only one."),
        of("eq.correlate", 2, connection.correlate, "Sets the group of publishers with correlated arrivals."),
        of("eq.defer", 1, connection.defer, "Enables deferred replies to publishes that wait for tokens."),
        of("eq.link", -2, connection.link, "Names the link that this connection continues."),
        of(
            "eq.where",
            -1,
            where.where,
            "Returns the hub's coordinate, and stores the client's.",
            runs_while_subscribed=True,
        ),
        of("eq.settle", 2, positioned.settle, "Replies when all messages to a topic so far have positions."),
        of(
            "eq.sever",
            3,
            positioned.sever,
            "Ends a link of this client to another hub, and replies when it has ended.",
        ),
        of(
            "eq.l.capabilities",
            -3,
            handshake.capabilities,
            "Exchanges capabilities with another hub.",
        ),
        of("eq.l.hello", -7, handshake.hello, "Makes this connection a link from another hub."),
    ]


def _subscriptions(kind: Kind, since: str, what: str) -> list[CommandSpec]:
    shard_names_to = -1 if kind.is_shard else None
    common = {"since": since, "group": "pubsub", "flags": _PUBSUB, "categories": ("@pubsub", "@slow")}
    return [
        CommandSpec(
            name=kind.subscribed.decode(),
            arity=-2,
            run=pubsub.subscriber(kind),
            summary=f"Subscribes to {what}.",
            complexity="O(N) in the number of names",
            shard_names_to=shard_names_to,
            runs_while_subscribed=True,
            **common,  # type: ignore[arg-type]  # the four facts above
        ),
        CommandSpec(
            name=kind.unsubscribed.decode(),
            arity=-1,
            run=pubsub.unsubscriber(kind),
            summary=f"Ends subscriptions to {what}; without names, all.",
            complexity="O(N) in the number of names",
            shard_names_to=shard_names_to,
            runs_while_subscribed=True,
            **common,  # type: ignore[arg-type]  # the four facts above
        ),
    ]


def _streams() -> list[CommandSpec]:
    facts = {"group": "pubsub", "since": "0.1.0", "flags": _PUBSUB, "categories": ("@pubsub", "@slow")}
    return [
        CommandSpec(
            name="eq.own",
            arity=-2,
            run=streams.own,
            summary="Subscribes to the streams of a topic that the client does not receive from other hubs.",
            runs_while_subscribed=True,
            **facts,  # type: ignore[arg-type]  # the four facts above
        ),
        CommandSpec(
            name="eq.notown",
            arity=-1,
            run=pubsub.unsubscriber(Kind.OWN),
            summary="Ends subscriptions of EQ.OWN; without names, all.",
            runs_while_subscribed=True,
            **facts,  # type: ignore[arg-type]  # the four facts above
        ),
        CommandSpec(
            name="eq.after",
            arity=-2,
            run=streams.after,
            summary="Orders the next EQ.PUBLISH to a topic after a position of another of its streams, or of all.",
            **facts,  # type: ignore[arg-type]  # the four facts above
        ),
    ]


def _publishing() -> list[CommandSpec]:
    flags, categories = ("pubsub", *_FAST), ("@pubsub", "@fast")
    facts = {"group": "pubsub", "flags": flags, "categories": categories, "is_pipelined": True}
    cost = "O(N) in the number of subscribers"
    return [
        CommandSpec(
            name="publish",
            arity=3,
            run=pubsub.publish,
            summary="Sends a message to a topic.",
            since="2.0.0",
            complexity=cost,
            **facts,  # type: ignore[arg-type]  # the four facts above
        ),
        CommandSpec(
            name="eq.publish",
            arity=-3,
            run=positioned.publish,
            summary="Sends messages to a topic, and returns the position of the last.",
            since="0.1.0",
            complexity=cost,
            **facts,  # type: ignore[arg-type]  # the four facts above
        ),
        CommandSpec(
            name="spublish",
            arity=3,
            run=pubsub.spublish,
            summary="Sends a message to a shard channel.",
            since="7.0.0",
            complexity=cost,
            shard_names_to=1,
            **facts,  # type: ignore[arg-type]  # the four facts above
        ),
    ]


def _telemetry() -> list[CommandSpec]:
    def of(name: str, arity: int, run: Handler, summary: str, complexity: str) -> CommandSpec:
        return CommandSpec(
            name=name,
            arity=arity,
            run=run,
            summary=summary,
            since="0.1.0",
            group="server",
            flags=_ADMIN,
            categories=("@admin", "@slow", "@dangerous"),
            complexity=complexity,
        )

    return [
        of(
            "eq.telemetry",
            4,
            telemetry.telemetry,
            "Returns telemetry records of the hub.",
            "O(N) in the records",
        ),
        of("eq.arrivals", -3, telemetry.arrivals, "Turns recording of a topic's arrivals on or off.", "O(1)"),
    ]


def _topics() -> list[CommandSpec]:
    def of(name: str, arity: int, run: Handler, summary: str, complexity: str) -> CommandSpec:
        return CommandSpec(
            name=name,
            arity=arity,
            run=run,
            summary=summary,
            since="0.1.0",
            group="pubsub",
            flags=("pubsub", "loading", "stale"),
            categories=("@pubsub", "@slow"),
            complexity=complexity,
        )

    return [
        of("eq.topics", -3, topics.topics, "Lists topics with their homes and counters.", "O(N)"),
        of("eq.topic", -2, topics.topic, "Returns homes and counters of topics.", "O(N) in the names"),
        of(
            "eq.envelope",
            -2,
            topics.envelope,
            "Returns the state of rate limits at this hub.",
            "O(N) in the names",
        ),
    ]


def _client() -> CommandSpec:
    def of(
        word: str, arity: int, run: Handler, since: str, summary: str, *, admin: bool = False
    ) -> CommandSpec:
        return CommandSpec(
            name=f"client|{word}",
            arity=arity,
            run=run,
            summary=summary,
            since=since,
            group="connection",
            flags=_ADMIN if admin else _QUIET,
            categories=_SLOW_ADMIN if admin else _SLOW_CONNECTION,
        )

    rows = [
        of("id", 2, clients.client_id, "5.0.0", "Returns the connection's number."),
        of("getname", 2, clients.getname, "2.6.9", "Returns the connection's name."),
        of("setname", 3, clients.setname, "2.6.9", "Names the connection."),
        of("setinfo", 4, clients.setinfo, "7.2.0", "Sets the client library and its version."),
        of("info", 2, clients.info, "6.2.0", "Describes this connection."),
        of("list", -2, clients.list_, "2.4.0", "Describes all connections.", admin=True),
        of("kill", -3, clients.kill, "2.4.0", "Ends connections.", admin=True),
        of("no-evict", 3, clients.no_evict, "7.0.0", "Accepted; a hub evicts no client.", admin=True),
        of("no-touch", 3, clients.no_touch, "7.2.0", "Accepted; a hub has no keys."),
        of("reply", 3, clients.reply, "3.2.0", "Turns replies on, off, or off for one command."),
        of("getredir", 2, clients.getredir, "6.0.0", "Returns -1: there is no tracking."),
        of("tracking", -3, clients.tracking, "6.0.0", "Accepted if it is off; a hub has no keys to track."),
        of("trackinginfo", 2, clients.trackinginfo, "6.2.0", "Returns that tracking is off."),
        of("caching", 3, clients.caching, "6.0.0", "Returns an error: there is no tracking."),
        of("unblock", -3, clients.unblock, "5.0.0", "Returns 0.", admin=True),
        of("unpause", 2, clients.unpause, "6.2.0", "Accepted; a hub pauses no client.", admin=True),
    ]
    table = {spec.name.partition("|")[2]: spec for spec in rows}
    return container("client", "2.4.0", "connection", "Commands about connections.", table)


def _pubsub() -> CommandSpec:
    def of(word: str, arity: int, run: Handler, since: str, summary: str) -> CommandSpec:
        return CommandSpec(
            name=f"pubsub|{word}",
            arity=arity,
            run=run,
            summary=summary,
            since=since,
            group="pubsub",
            flags=("pubsub", "loading", "stale"),
            categories=("@pubsub", "@slow"),
            complexity="O(N) in the number of topics",
        )

    rows = [
        of("channels", -2, pubsub.channels, "2.8.0", "Lists topics with subscribers."),
        of("numsub", -2, pubsub.numsub, "2.8.0", "Counts subscribers of topics."),
        of("numpat", 2, pubsub.numpat, "2.8.0", "Counts patterns with subscribers."),
        of("shardchannels", -2, pubsub.shardchannels, "7.0.0", "Lists shard channels with subscribers."),
        of("shardnumsub", -2, pubsub.shardnumsub, "7.0.0", "Counts subscribers of shard channels."),
    ]
    table = {spec.name.partition("|")[2]: spec for spec in rows}
    return container("pubsub", "2.8.0", "pubsub", "Commands about topics and subscribers.", table)


def _introspection() -> list[CommandSpec]:
    describe = introspection.describer(COMMANDS)

    def of(word: str, arity: int) -> CommandSpec:
        return CommandSpec(
            name=f"command|{word}",
            arity=arity,
            run=describe[word],
            summary=f"COMMAND, in the form called {word}.",
            since="7.0.0" if word in ("docs", "list") else "2.8.13",
            group="server",
            categories=_SLOW_CONNECTION,
        )

    rows = {"count": of("count", 2), "docs": of("docs", -2), "info": of("info", -2), "list": of("list", -2)}
    own = container("command", "2.8.13", "server", "Describes commands.", rows)

    def run(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
        handler = describe["bare"] if len(command) == 1 else own.run
        return handler(core, session, command)

    config_get = CommandSpec(
        name="config|get",
        arity=-3,
        run=introspection.config_get,
        summary="Returns settings whose names match.",
        since="2.0.0",
        group="server",
        flags=_ADMIN,
        categories=("@admin", "@slow", "@dangerous"),
    )
    return [
        CommandSpec(
            name="info",
            arity=-1,
            run=introspection.info,
            summary="Reports facts and counters of the hub.",
            since="1.0.0",
            group="server",
            categories=("@slow", "@dangerous"),
            tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
        ),
        CommandSpec(
            name="command",
            arity=-1,
            run=run,
            summary=own.summary,
            since=own.since,
            group=own.group,
            categories=_SLOW_CONNECTION,
            tips=("nondeterministic_output_order",),
            subcommands=rows,
        ),
        container("config", "2.0.0", "server", "Settings, read-only.", {"get": config_get}),
    ]


# By name in lower case and in upper case.
COMMANDS: dict[bytes, CommandSpec] = {}

for _spec in (
    *_greetings(),
    *_small_talk(),
    *_subscriptions(Kind.NAME, "2.0.0", "topics"),
    *_subscriptions(Kind.PATTERN, "2.0.0", "topics whose names match patterns"),
    *_subscriptions(Kind.SHARD, "7.0.0", "shard channels"),
    *_subscriptions(Kind.POSITIONED_NAME, "0.1.0", "topics, with positions"),
    *_subscriptions(Kind.POSITIONED_PATTERN, "0.1.0", "topics whose names match patterns, with positions"),
    *_streams(),
    *content.specs(),
    *_publishing(),
    *log_commands.specs(),
    _client(),
    _pubsub(),
    *_telemetry(),
    *_topics(),
    *_introspection(),
    *transactions.specs(),
    *server.specs(COMMANDS),
):
    COMMANDS[_spec.name.encode()] = COMMANDS[_spec.name.upper().encode()] = _spec
