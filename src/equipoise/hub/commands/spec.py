"""The spec of a command: handler, conditions, and its description for COMMAND."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from equipoise.resp.replies import array, simple
from equipoise.resp.requests import text_of

if TYPE_CHECKING:
    from equipoise.hub.data.reply import Reply

# Called with the hub, the session and the command. Returns the reply's bytes (empty if the handler pushed its own), an
# error text, or a pending reply. Each handler declares the interfaces that it needs of the hub and the session.
Handler = Callable[[Any, Any, list[bytes]], "bytes | str | Reply"]


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
    # Index of the last name for commands whose names determine the shard; None for others.
    shard_names_to: int | None = None
    tips: tuple[str, ...] = ()
    is_open_to_strangers: bool = False
    runs_while_subscribed: bool = False
    # Whether it may run while earlier replies are pending, and later commands while its own is; see hub/data/reply.py.
    is_pipelined: bool = False
    # Whether it works on the logs of topics, for which a hub may have no storage; see hub/commands/log_commands.py.
    concerns_logs: bool = False
    subcommands: Mapping[str, CommandSpec] = field(default_factory=dict)
    # The numbers of words that `arity` allows.
    words: range = field(init=False)

    def __post_init__(self) -> None:
        words = range(self.arity, self.arity + 1) if self.arity > 0 else range(-self.arity, sys.maxsize)
        object.__setattr__(self, "words", words)


def dispatch(container: str, subcommands: Mapping[str, CommandSpec]) -> Handler:
    """A handler that runs the subcommand named by the second word."""

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
    """A command with subcommands only; adds the subcommand HELP, which lists them."""
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
    """The error text if the container has no such subcommand, or its arity is wrong."""
    if len(command) < 2:
        return None
    word = text_of(command[1])
    spec = subcommands.get(word.lower())
    if spec is None:
        return f"ERR unknown subcommand '{word[:128]}'. Try {name.upper()} HELP."
    return arity_problem(spec, command)


def arity_problem(spec: CommandSpec, command: list[bytes]) -> str | None:
    return None if len(command) in spec.words else wrong_arity(spec)


def wrong_arity(spec: CommandSpec) -> str:
    return f"ERR wrong number of arguments for '{spec.name}' command"
