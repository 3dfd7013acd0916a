"""INFO, COMMAND and CONFIG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from equipoise.hub.commands.spec import CommandSpec, Handler
from equipoise.hub.commands.usage import USAGE, arguments, encode_arguments
from equipoise.hub.data.subscribe import compile_pattern
from equipoise.hub.data.topics import Totals
from equipoise.hub.data.turns import by_turns
from equipoise.hub.telemetry.info import COUNTING, SECTIONS, render_info
from equipoise.resp.replies import (
    array,
    bulk,
    integer,
    mapping,
    null,
    set_of,
    simple,
    value,
    verbatim,
)
from equipoise.resp.requests import text_of

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session

_EVERY_SECTION = frozenset(("all", "default", "everything"))


def info(core: HubCore, session: Session, command: list[bytes]) -> bytes | Reply:
    wanted = {text_of(argument).lower() for argument in command[1:]}
    if not wanted or wanted & _EVERY_SECTION:
        wanted = set(SECTIONS)
    totals = Totals()

    def steps() -> Iterator[None]:
        nonlocal totals
        for sums in core.index.totals():
            totals = sums
            yield

    def reply() -> bytes:
        return verbatim(render_info(core, session, wanted, totals), session.proto)

    return by_turns(core, session, steps() if wanted & COUNTING else iter(()), reply)


def config_get(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """The settings that clients request at connect, with values that fit a server without data."""
    limits = core.limits
    known = {
        "appendonly": "no",
        "bind": core.settings.host,
        "cluster-enabled": "no",
        "client-output-buffer-limit": f"normal 0 0 0 slave 0 0 0 pubsub {limits.output_bytes_max} "
        f"{limits.output_soft_bytes} {int(limits.output_soft_s)}",
        "databases": "1",
        "maxclients": str(limits.connections_max),
        "maxmemory": "0",
        "latency-monitor-threshold": "10",
        "maxmemory-policy": "noeviction",
        "notify-keyspace-events": "",
        "port": str(core.port),
        "proto-max-bulk-len": str(limits.payload_bytes_max),
        "requirepass": "",
        "save": "",
        "slowlog-log-slower-than": "-1",
        "slowlog-max-len": "0",
        "tcp-keepalive": str(limits.keepalive_s),
        "timeout": "0",
    }
    found: dict[str, bytes] = {}
    for argument in command[2:]:
        glob = compile_pattern(core, argument.lower())
        if isinstance(glob, str):
            return glob
        for name in known:
            if glob.matches(name.encode()):
                # As in Redis, a name requested without wildcards is returned in the spelling of the request.
                found.setdefault(name, name.encode() if glob.wildcards else argument)
    shown = {bulk(spelled): bulk(known[name].encode()) for name, spelled in found.items()}
    return mapping(shown, session.proto)


def describer(table: Mapping[bytes, CommandSpec]) -> dict[str, Handler]:
    """The handlers of COMMAND over the given table, which is complete only after they are created.

    Replies about the whole table take a millisecond or more to encode, and never change: they are cached.
    """
    made: dict[tuple[str, int], bytes] = {}

    def named(names: list[bytes]) -> list[CommandSpec | None]:
        return [_find(table, text_of(name)) for name in names]

    def every() -> list[CommandSpec]:
        return list({spec.name: spec for spec in table.values()}.values())

    def once(form: str, proto: int, make: Callable[[], bytes]) -> bytes:
        reply = made.get((form, proto))
        if reply is None:
            reply = made[form, proto] = make()
        return reply

    def bare(core: HubCore, session: Session, command: list[bytes]) -> bytes:
        proto = session.proto
        return once("info", proto, lambda: array(_info(spec, proto) for spec in every()))

    def count(core: HubCore, session: Session, command: list[bytes]) -> bytes:
        return integer(len(every()))

    def list_(core: HubCore, session: Session, command: list[bytes]) -> bytes:
        return set_of((bulk(spec.name.encode()) for spec in every()), session.proto)

    def infos(core: HubCore, session: Session, command: list[bytes]) -> bytes:
        if len(command) == 2:
            return bare(core, session, command)
        proto = session.proto
        return array(null(proto) if spec is None else _info(spec, proto) for spec in named(command[2:]))

    def docs(core: HubCore, session: Session, command: list[bytes]) -> bytes:
        proto = session.proto
        if len(command) == 2:
            return once("docs", proto, lambda: _docs_of(every(), proto))
        return _docs_of(filter(None, named(command[2:])), proto)

    return {"bare": bare, "count": count, "list": list_, "info": infos, "docs": docs}


def _find(table: Mapping[bytes, CommandSpec], name: str) -> CommandSpec | None:
    container, bar, word = name.lower().partition("|")
    spec = table.get(container.encode("utf-8", "surrogateescape"))
    return spec.subcommands.get(word) if spec is not None and bar else spec


def _info(spec: CommandSpec, proto: int) -> bytes:
    to = spec.shard_names_to
    first, last, step = (1, to, 1) if to is not None else (0, 0, 0)
    return array(
        (
            bulk(spec.name.encode()),
            integer(spec.arity),
            set_of(map(simple, spec.flags), proto),
            integer(first),
            integer(last),
            integer(step),
            set_of(map(simple, spec.categories), proto),
            set_of((bulk(tip.encode()) for tip in spec.tips), proto),
            set_of(() if to is None else (_key_spec(to, proto),), proto),
            _subcommands(spec, proto),
        )
    )


def _subcommands(spec: CommandSpec, proto: int) -> bytes:
    """An array, as in Redis, where only the empty one is a set."""
    if not spec.subcommands:
        return set_of((), proto)
    return array(_info(sub, proto) for sub in spec.subcommands.values())


def _key_spec(to: int, proto: int) -> bytes:
    """Shard channels are routed like keys though they are none, so Redis describes them as such."""
    last = 0 if to == 1 else to

    def search(kind: str, facts: dict[str, int]) -> bytes:
        return mapping(
            {bulk(b"type"): bulk(kind.encode()), bulk(b"spec"): value(dict(facts.items()), proto)}, proto
        )

    return mapping(
        {
            bulk(b"flags"): set_of((simple("not_key"),), proto),
            bulk(b"begin_search"): search("index", {"index": 1}),
            bulk(b"find_keys"): search("range", {"lastkey": last, "keystep": 1, "limit": 0}),
        },
        proto,
    )


def _docs_of(specs: Iterable[CommandSpec], proto: int) -> bytes:
    return mapping({bulk(spec.name.encode()): _docs(spec, proto) for spec in specs}, proto)


def _docs(spec: CommandSpec, proto: int) -> bytes:
    facts = {
        bulk(b"summary"): bulk(spec.summary.encode()),
        bulk(b"since"): bulk(spec.since.encode()),
        bulk(b"group"): bulk(spec.group.encode()),
        bulk(b"complexity"): bulk(spec.complexity.encode()),
    }
    if usage := USAGE.get(spec.name):
        facts[bulk(b"arguments")] = encode_arguments(arguments(usage), proto)
    if spec.subcommands:
        facts[bulk(b"subcommands")] = mapping(
            {bulk(sub.name.encode()): _docs(sub, proto) for sub in spec.subcommands.values()}, proto
        )
    return mapping(facts, proto)
