"""The Redis protocol, RESP2 and RESP3. Pure."""

from equipoise.resp.exact import RequestLimits
from equipoise.resp.requests import Command, Publishes, RequestReader, leading_publishes

__all__ = ["Command", "Publishes", "RequestLimits", "RequestReader", "leading_publishes"]
