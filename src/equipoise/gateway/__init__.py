"""The gateway: a small process that measures its coordinate and gives it to mobile clients nearby.

ePulsar's coordinate proxy. Read `session` (what it answers; pure), `hubs` (whom it measures), `server` (the shell).
"""

from equipoise.gateway.server import Gateway
from equipoise.gateway.settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
