"""Execute one command: find its spec, check whether it may run now, run it or queue it.

HubCore receives a Dispatch at its creation and imports no command itself, so commands may use all of the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.commands.keys import unknown_command
from equipoise.hub.commands.log_commands import read_together
from equipoise.hub.commands.plain_adds import add_gathered, add_several
from equipoise.hub.commands.spec import CommandSpec, wrong_arity
from equipoise.hub.commands.table import COMMANDS
from equipoise.hub.commands.transactions import enqueue, rejected
from equipoise.hub.data.gathered_replies import UnsettledReplies
from equipoise.resp.requests import text_of

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session
    from equipoise.resp import Command

__all__ = ["Dispatch"]

_READS = frozenset((b"XREAD", b"xread"))


class Dispatch:
    """Owned by one HubCore."""

    def __init__(self, core: HubCore) -> None:
        self._core = core
        self._unsettled: UnsettledReplies | None = None

    def execute(self, session: Session, command: Command) -> bytes | Reply:
        """One command's reply; empty if it has none or has pushed its own."""
        core = self._core
        core.stats.commands += 1
        spec = _spec_of(command)
        if spec is None:
            return core.refuse(rejected(session, command, unknown_command(command)))
        session.command = spec.name
        if problem := _objection(session, spec, command):
            return core.refuse(rejected(session, command, problem))
        if session.transaction is not None and (queued := enqueue(core, session, spec, command)):
            return queued
        reply = spec.run(core, session, command)
        return core.refuse(reply) if isinstance(reply, str) else reply

    def combine(self, session: Session, commands: list[Command], size: int) -> bool:
        """Execute consecutive XADDs of `size` bytes as one append, or let an XREAD share its wait with other sessions.

        False, with no effect, for all other commands. Only for a session without a transaction and pending replies.
        """
        if len(commands) == 1:
            return commands[0][0] in _READS and read_together(self._core, session, commands[0])
        is_run = commands[0][0] == b"XADD"
        reply = add_several(self._core, session, commands) if is_run else None
        if reply is None:
            return False
        session.answer(reply, size, is_muted=False)
        session.flush()
        return True

    def add_gathered(
        self,
        topic: bytes,
        sessions: list[Session],
        counts: list[int],
        bodies: list[bytes],
        size: int,
        is_last: bool = False,
        /,
    ) -> None:
        """Execute XADDs of several sessions to one log, of `size` bytes together; see `_sockets.c`.

        `is_last`: no other command follows in this turn.
        """
        if self._unsettled is None:
            self._unsettled = UnsettledReplies(self._core)
        add_gathered(self._core, self._unsettled, topic, sessions, counts, bodies, size, is_last=is_last)

    def is_pipelined(self, command: Command) -> bool:
        """Whether the command may run while earlier replies are pending, and later ones while its own is."""
        spec = _spec_of(command)
        return spec is not None and spec.is_pipelined


def _spec_of(command: Command) -> CommandSpec | None:
    return COMMANDS.get(command[0]) or COMMANDS.get(command[0].lower())


def _objection(session: Session, spec: CommandSpec, command: list[bytes]) -> str | None:
    """The error text if the command may not run now. The checks are in the order of Redis."""
    if len(command) not in spec.words:
        return wrong_arity(spec)
    if session.user is None and not spec.is_open_to_strangers:
        return "NOAUTH Authentication required."
    if session.proto == 2 and not spec.runs_while_subscribed and session.is_subscribed:
        return (
            f"ERR Can't execute '{_full_name(spec, command)}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / "
            "PING / QUIT / RESET are allowed in this context"
        )
    return None


def _full_name(spec: CommandSpec, command: list[bytes]) -> str:
    """The name with the subcommand of the second word, such as `client|id`."""
    subcommand = spec.subcommands.get(text_of(command[1]).lower()) if len(command) > 1 else None
    return spec.name if subcommand is None else subcommand.name
