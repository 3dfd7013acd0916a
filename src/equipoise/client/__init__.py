"""The asyncio client. It tracks positions, so it detects missed messages, and it reconnects by itself."""

from equipoise.client.bus import Bus, connect
from equipoise.client.durable_subscription import DurableSubscription
from equipoise.client.events import DurableMessage, Event, Gap, GapReason, Message, Receipt
from equipoise.client.settings import ClientSettings
from equipoise.client.subscription import MessageIterator, Subscription

__all__ = [
    "Bus",
    "ClientSettings",
    "DurableMessage",
    "DurableSubscription",
    "Event",
    "Gap",
    "GapReason",
    "Message",
    "MessageIterator",
    "Receipt",
    "Subscription",
    "connect",
]
