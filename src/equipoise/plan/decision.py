"""The interface of a policy: a pure function from view and plan to changes.

Three questions stay apart: which hubs may take a topic (eligibility), which one should (score), and when to act
(timing). A policy that decides only from the view, the plan, the specs, the time and its own memory can be replayed,
tested by tables and run in the simulator; a policy that reads a clock or a socket cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from equipoise.model import Plan, PlanChange, Specs, Why
from equipoise.plan.memory import Memory
from equipoise.view.view import View

__all__ = ["Decision", "Policy"]


@dataclass(frozen=True, slots=True)
class Decision:
    """One round's outcome."""

    # For the version after the plan of this round; may be empty. Each part carries its reason.
    change: PlanChange
    # Input of the next round, once the change is committed or empty. If another writer has committed this version
    # first, keep the old memory and decide again.
    memory: Memory
    # The wanted number of hubs, running ones included.
    servers_wanted: int
    # How many of them the policy counted as running; None: those alive and not drained. A hub that is drained or whose
    # memory is full receives no topics, so a policy that needs another in its place does not count it.
    servers_at_work: int | None = None
    # Hubs that have left the plan and may be stopped.
    releasable: tuple[str, ...] = ()
    # Findings beside the change: why a server is needed, why no action was possible.
    reasons: tuple[Why, ...] = ()
    # The busiest hub's load ratio and the average over eligible hubs; for display.
    ratio_max: float = 0.0
    ratio_mean: float = 0.0
    # Hubs of which the next views should list all topics: the listed ones do not suffice to relieve them.
    open_hubs: tuple[str, ...] = ()
    # A value is above its limit and needs more evidence or time: decide again with the next view, not the next period.
    is_pressing: bool = False


class Policy(Protocol):
    """The interface between the controller and all policies."""

    @property
    def name(self) -> str: ...

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        """Never raises for any view, nor for any valid plan."""
        ...

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        """Whether to decide on this view at once rather than at the next period. Cheap."""
        ...
