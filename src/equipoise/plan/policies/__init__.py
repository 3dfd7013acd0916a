"""The steps that the planner is composed of, one file each, and the baselines."""

from equipoise.plan.policies.hashing import ConsistentHashing
from equipoise.plan.policies.static import Static

__all__ = ["ConsistentHashing", "Static"]
