"""View in, plan out: where topics live, decided without touching the world. Pure."""

from equipoise.plan.view import HubView, TopicView, View
from equipoise.plan.view_table import ViewTables, from_tables, to_tables

__all__ = ["HubView", "TopicView", "View", "ViewTables", "from_tables", "to_tables"]
