"""The data plane: one process, one core. `server.py` meets the sockets; all else is pure."""

from equipoise.hub.settings import HubSettings, Limits, Tls, load_settings
from equipoise.hub.shell.server import Hub

__all__ = ["Hub", "HubSettings", "Limits", "Tls", "load_settings"]
