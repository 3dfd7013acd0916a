"""What a command is: how to run it, when it may run, and how COMMAND describes it to clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.resp.replies import array, simple

if TYPE_CHECKING:
    from equipoise.hub.data.reply import Reply

# Of the hub, the session and the command: the reply's bytes (empty if the handler pushed its own), an error's text, or
# that the reply comes later. A handler says itself what it needs of the first two.
Handler = Callable[[Any, Any, list[bytes]], "bytes | str | Reply"]


class CommandClient(Protocol):
    """What decides whether a command may run."""

    @property
    def user(self) -> object | None: ...
    @property
    def proto(self) -> int: ...
    @property
    def is_subscribed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One row of the command table. Flags, categories and groups are Redis's words for them."""

    name: str
    # Number of words with the command itself; negative for a minimum.
    arity: int
    run: Handler
    summary: str
    since: str
    group: str
    flags: tuple[str, ...] = ("loading", "stale")
    categories: tuple[str, ...] = ("@slow",)
    complexity: str = "O(1)"
    # Index of the last name for commands whose names decide the shard; None where names do not.
    shard_names_to: int | None = None
    tips: tuple[str, ...] = ()
    is_open_to_strangers: bool = False
    runs_while_subscribed: bool = False
    # Whether it may run while earlier replies are owed, and later commands while its own is; see hub/data/reply.py.
    is_pipelined: bool = False
    # Whether it works on the logs of topics, which a hub may have no place for; see hub/commands/log_commands.py.
    concerns_logs: bool = False
    subcommands: Mapping[str, CommandSpec] = field(default_factory=dict)


def dispatch(container: str, subcommands: Mapping[str, CommandSpec]) -> Handler:
    """A handler that passes the command on to the subcommand its second word names."""

    def run(core: Any, session: Any, command: list[bytes]) -> bytes | str | Reply:
        problem = subcommand_problem(container, subcommands, command)
        if problem is not None:
            return problem
        spec = subcommands[text_of(command[1]).lower()]
        session.command = spec.name
        return spec.run(core, session, command)

    return run


def container(
    name: str, since: str, group: str, summary: str, subcommands: dict[str, CommandSpec]
) -> CommandSpec:
    """A command that is nothing without its subcommands, of which HELP lists them."""
    subcommands["help"] = CommandSpec(
        name=f"{name}|help",
        arity=2,
        run=_helper(name, subcommands),
        summary="Lists the subcommands.",
        since="5.0.0",
        group=group,
        categories=("@slow", "@connection") if group == "connection" else ("@slow",),
    )
    return CommandSpec(
        name=name,
        arity=-2,
        run=dispatch(name, subcommands),
        summary=summary,
        since=since,
        group=group,
        flags=(),
        complexity="Depends on the subcommand.",
        subcommands=subcommands,
    )


def _helper(name: str, subcommands: Mapping[str, CommandSpec]) -> Handler:
    def run(core: Any, session: Any, command: list[bytes]) -> bytes:
        lines = [f"{name.upper()} <subcommand> [<arg> [value] ...]. Subcommands are:"]
        for word, spec in sorted(subcommands.items()):
            lines += [word.upper(), f"    {spec.summary}"]
        return array(simple(line) for line in lines)

    return run


def subcommand_problem(name: str, subcommands: Mapping[str, CommandSpec], command: list[bytes]) -> str | None:
    """Why a container cannot pass the command on."""
    if len(command) < 2:
        return None
    word = text_of(command[1])
    spec = subcommands.get(word.lower())
    if spec is None:
        return f"ERR unknown subcommand '{word[:128]}'. Try {name.upper()} HELP."
    return arity_problem(spec, command)


def arity_problem(spec: CommandSpec, command: list[bytes]) -> str | None:
    count = len(command)
    if count != spec.arity if spec.arity > 0 else count < -spec.arity:
        return f"ERR wrong number of arguments for '{spec.name}' command"
    return None


def objection(session: CommandClient, spec: CommandSpec, command: list[bytes]) -> str | None:
    """Why the command may not run now. Redis asks in this order too."""
    if (problem := arity_problem(spec, command)) is not None:
        return problem
    if session.user is None and not spec.is_open_to_strangers:
        return "NOAUTH Authentication required."
    if session.proto == 2 and not spec.runs_while_subscribed and session.is_subscribed:
        return (
            f"ERR Can't execute '{full_name(spec, command)}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / "
            "PING / QUIT / RESET are allowed in this context"
        )
    return None


def full_name(spec: CommandSpec, command: list[bytes]) -> str:
    """The name with the subcommand that the second word calls for, such as `client|id`."""
    subcommand = spec.subcommands.get(text_of(command[1]).lower()) if len(command) > 1 else None
    return spec.name if subcommand is None else subcommand.name


def text_of(argument: bytes) -> str:
    return argument.decode("utf-8", "surrogateescape")


def parse_integer(argument: bytes) -> int | None:
    """As Redis reads numbers: an optional minus, digits, nothing else, within 64 bits."""
    digits = argument[1:] if argument[:1] == b"-" else argument
    if not (digits.isdigit() and digits.isascii()) or len(digits) > 19:
        return None
    if digits[:1] == b"0" and argument != b"0":
        return None
    number = int(argument)
    return number if -(2**63) <= number < 2**63 else None
