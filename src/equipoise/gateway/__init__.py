"""The gateway: a small process that measures its coordinate and gives it to mobile clients nearby.

ePulsar's coordinate proxy. Read `session` (its replies; pure), `hubs` (the hubs it probes), `server` (the shell).
"""

from equipoise.gateway.server import Gateway
from equipoise.gateway.settings import GatewaySettings

__all__ = ["Gateway", "GatewaySettings"]
