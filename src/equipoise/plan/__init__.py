"""View in, plan out: where topics live, decided without touching the world. Pure."""

from equipoise.plan.arbiter import Arbiter, Held
from equipoise.plan.decision import Decision, Policy
from equipoise.plan.memory import Memory, decode_memory, encode_memory
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.view import HubView, TopicView, View
from equipoise.plan.view_table import ViewTables, from_tables, to_tables

__all__ = [
    "Arbiter",
    "Decision",
    "Held",
    "HubView",
    "Memory",
    "PlannerSettings",
    "Policy",
    "TopicView",
    "View",
    "ViewTables",
    "decode_memory",
    "encode_memory",
    "from_tables",
    "to_tables",
]
