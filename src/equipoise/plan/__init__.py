"""View in, plan out: where topics live, decided without touching the world. Pure."""

from equipoise.plan.arbiter import Arbiter, Held
from equipoise.plan.choosing import POLICIES, policy_named
from equipoise.plan.decision import Decision, Policy
from equipoise.plan.memory import Memory, decode_memory, encode_memory
from equipoise.plan.planner import Planner
from equipoise.plan.policies import AllPairs, ConsistentHashing, Static, TopicManager
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.view import View
from equipoise.plan.view_rows import HubView, TopicView
from equipoise.plan.view_table import ViewTables, from_tables, to_tables

__all__ = [
    "POLICIES",
    "AllPairs",
    "Arbiter",
    "ConsistentHashing",
    "Decision",
    "Held",
    "HubView",
    "Memory",
    "Planner",
    "PlannerSettings",
    "Policy",
    "Static",
    "TopicManager",
    "TopicView",
    "View",
    "ViewTables",
    "decode_memory",
    "encode_memory",
    "from_tables",
    "policy_named",
    "to_tables",
]
