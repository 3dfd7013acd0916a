"""Equipoise: pub/sub that keeps every topic inside its limits, spoken over the Redis protocol.

All names but the errors are loaded when they are first used: a hub does not need the client, and the simulator
imports this package on interpreters that have nothing installed.
"""

import importlib
from typing import TYPE_CHECKING

from equipoise import errors
from equipoise.version import __version__

if TYPE_CHECKING:
    from equipoise.client import (
        Bus,
        ClientSettings,
        DurableMessage,
        DurableSubscription,
        Event,
        Gap,
        GapReason,
        Message,
        Receipt,
        Subscription,
        connect,
    )
    from equipoise.stream.position import Position

__all__ = [
    "Bus",
    "ClientSettings",
    "DurableMessage",
    "DurableSubscription",
    "Event",
    "Gap",
    "GapReason",
    "Message",
    "Position",
    "Receipt",
    "Subscription",
    "__version__",
    "connect",
    "errors",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "equipoise.stream.position" if name == "Position" else "equipoise.client"
    value = getattr(importlib.import_module(home), name)
    # Found here from now on: `equipoise.Gap` may stand in an application's innermost loop.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
