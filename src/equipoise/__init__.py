"""Equipoise: pub/sub that keeps every topic inside its limits, spoken over the Redis protocol."""

from equipoise.client import (
    Bus,
    ClientSettings,
    Event,
    Gap,
    GapReason,
    Message,
    Receipt,
    Subscription,
    connect,
)
from equipoise.model import Position

__version__ = "0.1.0"

__all__ = [
    "Bus",
    "ClientSettings",
    "Event",
    "Gap",
    "GapReason",
    "Message",
    "Position",
    "Receipt",
    "Subscription",
    "__version__",
    "connect",
]
