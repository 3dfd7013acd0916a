"""A plan in the making: the draft, who may take part in it, what it changes, and what it predicts. Pure."""

from equipoise.plan.draft.changes import why
from equipoise.plan.draft.draft import PLANNER, Draft

__all__ = ["PLANNER", "Draft", "why"]
