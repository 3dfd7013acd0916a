"""Safeguards of edges that balance the subscribers of content topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from equipoise.content.balancing import edge_balancer, edge_table
from equipoise.content.balancing.edge_balancer import EdgeBalancer
from equipoise.content.balancing.edge_events import (
    STATUSES,
    BalancingEffect,
    EdgeEvent,
    EdgePhase,
    RequestReceived,
)
from equipoise.content.balancing.edge_rules import EdgeSession
from equipoise.content.balancing.edge_table import EdgeTransition
from equipoise.content.balancing.messages import HubStatus
from equipoise.content.balancing.pair_estimate import PairEstimate
from equipoise.hub.cluster.control_links import ControlLinks
from equipoise.hub.cluster.link import link_session
from equipoise.hub.content import content_publishers
from equipoise.hub.content.content_edge import ContentEdge
from equipoise.hub.content.edge_rooms import EdgeRooms
from equipoise.lab.simulation.ablation import Ablation, replaced
from equipoise.lab.simulation.checkers import balance, needless_gap, once
from equipoise.lab.simulation.cluster.content_ablations import arrived_when_answered
from equipoise.plan.steps import content as content_step
from equipoise.stream.merge import TopicMerge
from equipoise.stream.parts import FilteredRun
from equipoise.stream.sources import MergedStream

__all__ = ["EDGE_ABLATIONS"]


def _take_again(merge: TopicMerge, stream: MergedStream, run: FilteredRun) -> None:
    """A client takes messages from the new hub that the former hub already delivered."""
    _, missed = stream.cursor.accept(run.epoch, run.n, run.span)
    if missed != 0:
        merge._sink.on_messages(run.epoch, run.n, [], missed)
    for first, payloads in run.runs(run.n - 1):
        merge._sink.on_messages(run.epoch, first, payloads, 0)


def _never_stabilizing(row: EdgeTransition, edge: EdgeSession, event: EdgeEvent) -> list[BalancingEffect]:
    """A hub starts the next session with measurements from before the last session."""
    effects = _carry(row, edge, event)
    if edge.phase is EdgePhase.STABILIZING:
        edge.phase = EdgePhase.OK
    return effects


_carry = edge_table._carry


@contextmanager
def _never_unavailable() -> Iterator[None]:
    """A full hub reports free capacity and takes part in sessions."""
    unavailable = EdgePhase.UNAVAILABLE
    rows = dict(edge_table._ROWS)
    rows[unavailable, RequestReceived] = rows[EdgePhase.OK, RequestReceived]
    statuses = {**STATUSES, unavailable: HubStatus.OK}
    with (
        replaced(ContentEdge, "_is_full", lambda edge: False),
        replaced(edge_table, "_ROWS", rows),
        replaced(edge_balancer, "STATUSES", statuses),
    ):
        yield


def _wait_for_ever(balancer: EdgeBalancer, now_s: float) -> list[BalancingEffect]:
    return []


EDGE_ABLATIONS = (
    Ablation(
        "edge-drain",
        "A redirected smart client leaves its former edge when that edge has reached the position of "
        "the new subscription.",
        needless_gap.NAME,
        "content-edges",
        lambda: replaced(TopicMerge, "_has_arrived", arrived_when_answered),
    ),
    Ablation(
        "edge-duplicates",
        "A redirected smart client drops messages that the former edge already delivered.",
        once.NAME,
        "content-edges",
        lambda: replaced(TopicMerge, "_take_run", _take_again),
    ),
    Ablation(
        "edge-stabilizing",
        "A hub starts no balancing session before it has measured the effect of the last one.",
        balance.NAME,
        "content-steady",
        lambda: replaced(edge_table, "_carry", _never_stabilizing),
    ),
    Ablation(
        "edge-unavailable",
        "A hub at capacity accepts no subscribers and announces it.",
        balance.NAME,
        "content-full",
        _never_unavailable,
    ),
    Ablation(
        "edge-overdue",
        "A balancing session ends when an expected message does not arrive in time.",
        balance.NAME,
        "content-sessions",
        lambda: replaced(EdgeBalancer, "poll", _wait_for_ever),
        seed=1,
    ),
    Ablation(
        "edge-control-link",
        "Control messages of edges have links of their own.",
        balance.NAME,
        "content-overloaded",
        lambda: replaced(ControlLinks, "send", lambda links, hub, frame: False),
    ),
    Ablation(
        "link-turns",
        "Writes to one link yield to other connections.",
        balance.NAME,
        "content-overloaded",
        lambda: replaced(link_session, "LINK_TURN_S", inf),
    ),
    Ablation(
        "head-publishers",
        "A head with more load than a neighbouring head sends it publishers.",
        balance.NAME,
        "content-publishers",
        lambda: replaced(content_publishers, "choose_move", lambda own, others, trigger: None),
    ),
    Ablation(
        "planner-sessions",
        "The planner changes no edges of a topic while one of them is in a session.",
        balance.NAME,
        "content-planned",
        lambda: replaced(content_step, "_in_session_s", lambda draft: {}),
    ),
    Ablation(
        "edge-bounds",
        "A balancing session does not reverse the difference of any metric so far that the other hub "
        "starts a session back.",
        balance.NAME,
        "content-planned",
        lambda: replaced(PairEstimate, "_bound", lambda pair, metric, other: -inf),
        seed=1,
    ),
    Ablation(
        "edge-first",
        "A hub that is not an edge redirects a new subscriber to the edge with most free capacity.",
        balance.NAME,
        "content-comers",
        lambda: replaced(EdgeRooms, "_choose", lambda rooms, topic: None),
    ),
)
