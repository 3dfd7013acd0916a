"""The interface of a policy: a pure function from view and plan to changes.

Keep three questions apart: who may take a topic (eligible), who should (score), and when to act at all (timing). A
policy that answers them from the view, the plan, the specs, the time and its own memory alone can be replayed, tested
by tables and run in the simulator; one that reads a clock or a socket cannot.
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

    # Made on the plan it was decided on; empty if nothing is to change. Each part carries its reason.
    change: PlanChange
    # To be passed to the next round, once the change has been committed or found to be empty. If committing failed
    # because another writer was faster, keep the old memory and decide again.
    memory: Memory
    # How many hubs there should be in all, those that run included.
    servers_wanted: int
    # How many of them the policy counted as there; None: those that are alive and not drained. One that is drained or
    # whose memory is full takes nothing, so a policy that wants another in its place does not count it.
    servers_at_work: int | None = None
    # Hubs that are out of the plan and may be stopped.
    releasable: tuple[str, ...] = ()
    # What was found beside the change: why a server is asked for, why nothing could be done.
    reasons: tuple[Why, ...] = ()
    # The busiest hub's load ratio and the average over those that may be given something; for people.
    ratio_max: float = 0.0
    ratio_mean: float = 0.0
    # Hubs whose topics the next views are to name all: what they name now does not suffice to relieve them.
    open_hubs: tuple[str, ...] = ()
    # Something is above its limit and waits for evidence or time: decide again with the next view, not the next period.
    is_pressing: bool = False


class Policy(Protocol):
    """The one seam between the controller and all ways to plan."""

    @property
    def name(self) -> str: ...

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        """Never raises for anything a view may say, and never for a plan that is valid."""
        ...

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        """Whether this view should be decided on at once rather than at the next period. Cheap."""
        ...
