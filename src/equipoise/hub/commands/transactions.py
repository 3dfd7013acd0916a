"""MULTI, EXEC, DISCARD, WATCH and UNWATCH: queue commands and run them in sequence.

Redis runs a transaction as if it were one command. A hub runs its commands in order and sends all replies together, as
Redis does, but may serve other clients between two commands if they take long: there is no data that another client
could see half changed. There are no keys either, so WATCH has no effect and EXEC never fails because of it.

Always true:
    a command that could not run (unknown, arguments missing, not permitted) aborts the whole transaction at EXEC;
    queued commands count as input that is not executed yet, and are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.access.denials import denial
from equipoise.hub.commands.log_commands import COMMAND_BYTES_MAX, log_denial
from equipoise.hub.commands.spec import CommandSpec, subcommand_problem
from equipoise.hub.data.client_state import Transaction
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.subscribe import objection as subscription_objection
from equipoise.hub.data.turns import TURN_S
from equipoise.resp.replies import OK, simple

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["enqueue", "rejected", "specs"]

QUEUED = simple("QUEUED")
# Memory of a queued command beside its bytes: a list, and an object per word.
COMMAND_BYTES = 100
WORD_BYTES = 40
_ABORTED = "EXECABORT Transaction discarded because of previous errors."
_NOT_HERE = "ERR Command not allowed inside a transaction"
_AT_ONCE = frozenset(("exec", "discard", "multi", "watch", "quit", "reset"))
_KINDS = {kind.subscribed.decode(): kind for kind in (Kind.NAME, Kind.PATTERN, Kind.SHARD)}


def rejected(session: Session, command: list[bytes], text: str) -> str:
    """The error of a command that cannot run. It aborts the transaction; if the command is EXEC, it ends it."""
    transaction = session.transaction
    if command[0].lower() == b"exec":
        session.transaction = None
        return f"EXECABORT Transaction discarded because of: {text.removeprefix('ERR ')}"
    if transaction is not None:
        transaction.is_aborted = True
    return text


def enqueue(core: HubCore, session: Session, spec: CommandSpec, command: list[bytes]) -> bytes | None:
    """The reply to a command inside a transaction; None for commands that run at once."""
    transaction = session.transaction
    assert transaction is not None, "asked inside transactions"
    if spec.name in _AT_ONCE:
        return None
    problem = _objection(core, session, spec, command)
    if problem is not None:
        transaction.is_aborted = True
        return core.refuse(problem)
    if not transaction.is_aborted:
        transaction.commands.append((spec, command))
        transaction.bytes += COMMAND_BYTES + sum(map(len, command)) + WORD_BYTES * len(command)
        session.note_input()
    return QUEUED


def _objection(core: HubCore, session: Session, spec: CommandSpec, command: list[bytes]) -> str | None:
    """The error text if the command aborts the transaction: it is invalid, not permitted, or too large."""
    transaction = session.transaction
    assert transaction is not None, "asked inside transactions"
    if spec.name.startswith("eq.") and not spec.is_pipelined:
        return _NOT_HERE
    if spec.subcommands and (problem := subcommand_problem(spec.name, spec.subcommands, command)):
        return problem
    most = core.limits.transaction_bytes_max
    if transaction.bytes + sum(map(len, command)) > most:
        return f"ERR a transaction of more than {most} bytes (transaction_bytes_max)"
    if kind := _KINDS.get(spec.name):
        return subscription_objection(core, session, kind, command[1:])
    if spec.concerns_logs:
        if transaction.bytes > COMMAND_BYTES_MAX:
            return f"ERR a transaction on logs of more than {COMMAND_BYTES_MAX} bytes"
        return log_denial(core, session, command)
    if spec.is_pipelined and len(command[1]) <= core.limits.topic_bytes_max:
        return (
            None if session.may(Action.PUBLISH, command[1]) else denial(session, Action.PUBLISH, command[1])
        )
    return None


def multi(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if session.transaction is not None:
        return "ERR MULTI calls can not be nested"
    session.transaction = Transaction()
    return OK


def discard(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if session.transaction is None:
        return "ERR DISCARD without MULTI"
    session.transaction = None
    session.note_input()
    return OK


def watch(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    return OK if session.transaction is None else "ERR WATCH inside MULTI is not allowed"


def unwatch(core: HubCore, session: Session, command: list[bytes]) -> bytes:
    return OK


def exec_(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    transaction = session.transaction
    if transaction is None:
        return "ERR EXEC without MULTI"
    session.transaction = None
    if transaction.is_aborted:
        session.note_input()
        return _ABORTED
    return _Execution(core, session, transaction).begin()


class _Execution:
    """Runs the commands of one transaction, and gathers their replies and pushes.

    Waits like a session: a fence runs when all earlier replies are complete, and the next command when its own reply
    is (hub/data/reply.py).
    """

    def __init__(self, core: HubCore, session: Session, transaction: Transaction) -> None:
        self._core = core
        self._session = session
        self._left = iter(transaction.commands)
        self._next: tuple[CommandSpec, list[bytes]] | None = next(self._left, None)
        self._answers: list[bytes | Reply] = [b"*%d\r\n" % len(transaction.commands)]
        # Number of pending replies among the answers.
        self._owed = 0
        self._is_running = False
        self._reply: Reply | None = None

    def begin(self) -> bytes | Reply:
        session = self._session
        # Write earlier replies first; messages to the client itself are written before the transaction's reply.
        session.flush()
        session.is_gathering = True
        if self._core.logs is not None:
            self._core.logs.append_now()
        if self._run(session.last_at + TURN_S):
            return b"".join(self._finish())
        # The commands have their own timeouts.
        self._reply = Reply(wait_s=None)
        return self._reply

    def _go_on(self) -> None:
        if self._session.is_closing or self._is_running or self._reply is None or not self._reply.is_wanted:
            return
        if self._run(self._core.now() + TURN_S):
            self._reply.complete(*self._finish())

    def _run(self, until: float) -> bool:
        """Run commands until a pending reply or `until`; return whether all have run and have replies."""
        core, session = self._core, self._session
        self._is_running = True
        while self._next is not None and not session.is_closing:
            spec, command = self._next
            if self._owed and not (spec.is_pipelined or spec.concerns_logs):
                break
            self._next = next(self._left, None)
            self._take(spec.run(core, session, command))
            if self._owed and not (spec.is_pipelined or spec.concerns_logs):
                break
            if core.now() > until and not spec.concerns_logs:
                # The changes of a transaction in a log are one append, so it is not interrupted.
                core.shell.call_later(0, self._go_on)
                break
        self._is_running = False
        return self._next is None and not self._owed

    def _take(self, outcome: bytes | str | Reply) -> None:
        """Gather a command's pushes and its reply, in this order."""
        core, session = self._core, self._session
        self._answers += session.take_gathered()
        if isinstance(outcome, str):
            self._answers.append(core.refuse(outcome))
        elif isinstance(outcome, bytes):
            self._answers.append(outcome)
        elif outcome.pieces is not None:
            self._answers += outcome.pieces
        else:
            self._answers.append(outcome)
            self._owed += 1
            outcome.owe(self._completed(outcome), core.now(), is_muted=False)
            if outcome.wait_s is not None:
                core.shell.call_later(outcome.wait_s, outcome.expire)

    def _completed(self, reply: Reply) -> Callable[[], None]:
        def completed() -> None:
            at = self._answers.index(reply)
            self._answers[at : at + 1] = [*self._session.take_gathered(), *(reply.pieces or ())]
            self._owed -= 1
            self._core.shell.call_later(0, self._go_on)

        return completed

    def _finish(self) -> list[bytes]:
        self._session.is_gathering = False
        self._session.note_input()
        return [answer for answer in self._answers if isinstance(answer, bytes)]


def specs() -> list[CommandSpec]:
    def of(name: str, arity: int, run: object, since: str, summary: str) -> CommandSpec:
        fast = ("noscript", "loading", "stale", "fast", "allow_busy")
        return CommandSpec(
            name=name,
            arity=arity,
            run=run,  # type: ignore[arg-type]  # the handlers above
            summary=summary,
            since=since,
            group="transactions",
            flags=("noscript", "loading", "stale", "skip_slowlog") if name == "exec" else fast,
            categories=("@slow" if name == "exec" else "@fast", "@transaction"),
        )

    return [
        of("multi", 1, multi, "1.2.0", "Begins a transaction: the next commands are queued for EXEC."),
        of("exec", 1, exec_, "1.2.0", "Runs the commands queued since MULTI."),
        of("discard", 1, discard, "2.0.0", "Discards the commands queued since MULTI."),
        of("watch", -2, watch, "2.2.0", "Accepted; a hub has no keys that could change."),
        of("unwatch", 1, unwatch, "2.2.0", "Accepted; a hub has no keys that could change."),
    ]
