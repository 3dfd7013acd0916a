"""The view: measurements of all topics and hubs for the planner. Pure."""

from equipoise.view.codec import ViewTables, from_tables, to_tables
from equipoise.view.schema import HubView, TopicView
from equipoise.view.view import View

__all__ = ["HubView", "TopicView", "View", "ViewTables", "from_tables", "to_tables"]
