"""Safeguards of one hub and its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from equipoise.access import Action, User
from equipoise.client.inbox import Inbox
from equipoise.client.topic_publisher import TopicPublisher
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.link import Link, Outbox
from equipoise.client.wire.link_subscriptions import LinkSubscriptions
from equipoise.client.wire.requests import Ticket
from equipoise.hub import core as hub_core
from equipoise.hub.access import reauthorization
from equipoise.hub.access.connection_limits import ConnectionLimits
from equipoise.hub.core import HubCore
from equipoise.hub.data import subscribe
from equipoise.hub.data.backlog import Backlogs
from equipoise.hub.data.client_state import ClientState
from equipoise.hub.data.session import Session
from equipoise.hub.data.topic import compile_audience
from equipoise.lab.simulation.ablation import Ablation, replaced
from equipoise.lab.simulation.checkers import authorised, memory, once, order, progress
from equipoise.stream.cursor import Cursor
from equipoise.stream.position import Epochs

__all__ = ["HUB_ABLATIONS"]


def _nothing(*args: object, **named: object) -> None:
    """The effect of a missing safeguard."""


# Safeguards of the hub.


def _without_output_limits() -> AbstractContextManager[None]:
    return replaced(Backlogs, "check", _nothing)


def _without_backlog_order() -> AbstractContextManager[None]:
    original = Backlogs.resume

    def resume(self: Backlogs, session: Session) -> None:
        original(self, session)
        if session in self.lagging:
            # New messages go straight to the transport, ahead of the backlog.
            session.write = session.wire.write

    return replaced(Backlogs, "resume", resume)


def _without_epochs() -> AbstractContextManager[None]:
    return replaced(Epochs, "new", lambda self, above=0: 1)


def _without_succession() -> AbstractContextManager[None]:
    return replaced(HubCore, "follow", _nothing)


def _without_revocation() -> AbstractContextManager[None]:
    return replaced(reauthorization, "reauthorize", lambda core, session: 0)


def _without_subscribe_grants() -> AbstractContextManager[None]:
    return replaced(subscribe, "_may_subscribe", lambda session, kind, name: True)


def _without_publish_grants() -> AbstractContextManager[None]:
    original = ClientState.may

    def may(self: ClientState, action: Action, name: bytes) -> bool:
        return action in (Action.PUBLISH, Action.CREATE) or original(self, action, name)

    return replaced(ClientState, "may", may)


@contextmanager
def _without_pattern_grants() -> Iterator[None]:
    """Switches off both checks: of the pattern as a whole, and of each topic it matches."""

    def compile_unjudged(*args: Any) -> Any:
        with replaced(ClientState, "may", lambda self, action, name: True):
            return compile_audience(*args)

    with (
        replaced(User, "may_pattern", lambda self, action, pattern: True),
        replaced(hub_core, "compile_audience", compile_unjudged),
    ):
        yield


def _without_input_limits() -> AbstractContextManager[None]:
    original = HubCore.request_limits

    def request_limits(self: HubCore, *, is_authenticated: bool) -> Any:
        limits = original(self, is_authenticated=is_authenticated)
        self.input_bytes_max = 1 << 40
        return type(limits)(**{**_fields(limits), "payload_bytes_max": 1 << 40})

    return replaced(HubCore, "request_limits", request_limits)


def _without_connection_limit() -> AbstractContextManager[None]:
    return replaced(ConnectionLimits, "refusal", _nothing)


# Safeguards of the client.


def _without_gap_after_reconnect() -> AbstractContextManager[None]:
    original = Cursor.resume

    def resume(self: Cursor, epoch: int, last_n: int, *, may_lag: bool = False) -> int:
        original(self, epoch, last_n, may_lag=may_lag)
        return 0

    return replaced(Cursor, "resume", resume)


def _without_gap_for_drops() -> AbstractContextManager[None]:
    return replaced(Inbox, "_count_drop", _nothing)


def _without_queue_bound() -> AbstractContextManager[None]:
    return replaced(Inbox, "_drop_oldest", _nothing)


def _without_window() -> AbstractContextManager[None]:
    return replaced(Outbox, "_has_room", lambda self, connection, size: True)


def _without_uncertainty() -> AbstractContextManager[None]:
    """The client silently resends a publish whose receipt was lost over the next connection."""
    original = Connection.connection_lost

    def connection_lost(self: Connection, exc: Exception | None) -> None:
        entries = self.in_flight._entries
        again = [entry for entry in entries if isinstance(entry, Ticket) and entry.size]
        for ticket in again:
            entries.remove(ticket)
            if isinstance(ticket.publisher, TopicPublisher):
                ticket.publisher.waiting[ticket] = None
        original(self, exc)

    return replaced(Connection, "connection_lost", connection_lost)


def _without_resubscription() -> AbstractContextManager[None]:
    def attach(self: LinkSubscriptions, connection: Connection) -> None:
        self._connection = connection

    return replaced(LinkSubscriptions, "attach", attach)


def _without_pings() -> AbstractContextManager[None]:
    async def watch(self: Link, connection: Connection) -> None:
        await asyncio.wait([connection.lost])

    return replaced(Link, "_watch", watch)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


HUB_ABLATIONS = (
    Ablation(
        "output-limits",
        "A hub disconnects a slow subscriber.",
        memory.NAME,
        "hub-slow-readers",
        _without_output_limits,
    ),
    Ablation(
        "backlog-order",
        "The backlog of a slow subscriber is sent before new messages.",
        order.NAME,
        "hub-slow-readers",
        _without_backlog_order,
        seed=2,
    ),
    Ablation(
        "epochs",
        "Each incarnation of a hub numbers in its own epoch.",
        once.NAME,
        "hub-restarts",
        _without_epochs,
        seed=3,
    ),
    Ablation(
        "succession",
        "A hub closes a client's former connection when the client reconnects.",
        order.NAME,
        "hub-cuts",
        _without_succession,
        seed=3,
    ),
    Ablation(
        "revocation",
        "A hub re-checks live subscriptions when access rules change.",
        authorised.NAME,
        "hub-revocation",
        _without_revocation,
        seed=4,
    ),
    Ablation(
        "subscribe-grants",
        "A hub checks access when a client subscribes.",
        authorised.NAME,
        "hub-revocation",
        _without_subscribe_grants,
        seed=4,
    ),
    Ablation(
        "publish-grants",
        "A hub checks access on publish.",
        authorised.NAME,
        "hub-revocation",
        _without_publish_grants,
        seed=3,
    ),
    Ablation(
        "pattern-grants",
        "A hub checks a pattern as a whole and again for each topic.",
        authorised.NAME,
        "hub-revocation",
        _without_pattern_grants,
        seed=5,
    ),
    Ablation(
        "input-limits",
        "A hub rejects a request that never ends.",
        memory.NAME,
        "hub-hostile",
        _without_input_limits,
    ),
    Ablation(
        "connection-limit",
        "A hub rejects connections above a limit.",
        memory.NAME,
        "hub-hostile",
        _without_connection_limit,
        seed=1,
    ),
    Ablation(
        "gap-after-reconnect",
        "A gap reports the messages that a client missed while it was disconnected.",
        once.NAME,
        "hub-resets",
        _without_gap_after_reconnect,
    ),
    Ablation(
        "gap-for-drops",
        "A gap reports the messages that a full queue drops.",
        once.NAME,
        "hub-slow-readers",
        _without_gap_for_drops,
    ),
    Ablation(
        "queue-bound",
        "A full queue drops its oldest messages.",
        memory.NAME,
        "hub-slow-readers",
        _without_queue_bound,
    ),
    Ablation(
        "window",
        "The number of publishes without a reply is limited.",
        memory.NAME,
        "hub-slow-readers",
        _without_window,
    ),
    Ablation(
        "uncertainty",
        "A message that may have been delivered is not resent.",
        once.NAME,
        "hub-resets",
        _without_uncertainty,
        seed=2,
    ),
    Ablation(
        "resubscription",
        "A new connection restores the subscriptions of the old one.",
        progress.NAME,
        "hub-resets",
        _without_resubscription,
    ),
    Ablation(
        "pings", "A client detects a silent hub.", progress.NAME, "hub-restarts", _without_pings, seed=22
    ),
)
