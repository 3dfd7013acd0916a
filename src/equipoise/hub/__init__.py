"""The data plane: one process, one core. `server.py` meets the sockets; all else is pure."""

from equipoise.hub.server import Hub
from equipoise.hub.settings import HubSettings, Limits, Tls, load_settings

__all__ = ["Hub", "HubSettings", "Limits", "Tls", "load_settings"]
