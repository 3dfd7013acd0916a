"""A whole cluster on one machine: store, hubs, pipeline and controller under one supervisor."""

from equipoise.local.layout import Layout
from equipoise.local.system import LocalSystem, SystemSettings

__all__ = ["Layout", "LocalSystem", "SystemSettings"]
