"""The whole system on one machine: a store, hubs, a pipeline and a controller under one supervisor."""

from equipoise.local.layout import Layout
from equipoise.local.system import LocalSystem, SystemSettings

__all__ = ["Layout", "LocalSystem", "SystemSettings"]
