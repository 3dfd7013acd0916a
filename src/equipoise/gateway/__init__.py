"""The gateway: a small process that finds where it is, and tells the mobile clients that come through it.

ePulsar's coordinate proxy. Read `session` (what it answers; pure), `hubs` (whom it measures), `server` (the shell).
"""

from equipoise.gateway.server import Gateway
from equipoise.gateway.settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
