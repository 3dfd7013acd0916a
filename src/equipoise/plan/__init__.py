"""View in, plan out: the homes of topics. Pure."""

from equipoise.plan.decision import Decision, Policy
from equipoise.plan.memory import Arbiter, Memory, MoveClaim, decode_memory, encode_memory
from equipoise.plan.planner import Planner
from equipoise.plan.policies import AllPairs, ConsistentHashing, Static, TopicManager
from equipoise.plan.registry import POLICIES, policy_named
from equipoise.plan.settings import PlannerSettings

__all__ = [
    "POLICIES",
    "AllPairs",
    "Arbiter",
    "ConsistentHashing",
    "Decision",
    "Memory",
    "MoveClaim",
    "Planner",
    "PlannerSettings",
    "Policy",
    "Static",
    "TopicManager",
    "decode_memory",
    "encode_memory",
    "policy_named",
]
