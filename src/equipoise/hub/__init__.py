"""The data plane: one process per core. `shell/` has the sockets; the rest is pure."""

from equipoise.hub.settings import HubSettings, Limits, Tls, load_settings
from equipoise.hub.shell.server import Hub

__all__ = ["Hub", "HubSettings", "Limits", "Tls", "load_settings"]
