"""Count messages that subscribers of this hub missed, per topic and in total.

Subscribers with positions receive a gap. Plain Redis subscribers cannot, so the hub that they are connected to counts
the loss for operators. A hub detects a loss by positions (a hole, an epoch whose predecessor has an unknown end), or by
the failure of another hub, which may have lost messages of any topic.

Always true: the sums count every loss; `by_topic` has the latest TOPICS_MAX topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Losses", "TopicLoss"]

# Topics with losses that are kept for INFO.
TOPICS_MAX = 1_024


@dataclass(slots=True)
class TopicLoss:
    """Messages of one topic that were lost before they reached this hub."""

    # Missed messages, where positions give the number.
    messages: int = 0
    # Losses of an unknown number of messages.
    gaps: int = 0


class Losses:
    """Owned by the core of one hub."""

    def __init__(self) -> None:
        self.messages = 0
        self.gaps = 0
        # Hubs that failed, or whose link lost frames: each may have lost messages of any topic.
        self.hubs = 0
        self.by_topic: dict[bytes, TopicLoss] = {}
        # Called with the topic; None: messages of any topic may be missing.
        self.on_loss: Callable[[bytes | None], object] = lambda topic: None

    def count(self, topic: bytes, messages: int | None) -> None:
        """`messages` messages of the topic are lost; None: an unknown number."""
        loss = self.by_topic.pop(topic, None)
        if loss is None:
            loss = TopicLoss()
            if len(self.by_topic) >= TOPICS_MAX:
                del self.by_topic[next(iter(self.by_topic))]
        self.by_topic[topic] = loss
        if messages is None:
            self.gaps += 1
            loss.gaps += 1
        else:
            self.messages += messages
            loss.messages += messages
        self.on_loss(topic)

    def facts(self, topic: bytes | None = None) -> dict[str, int]:
        """Counters for INFO and metrics: of one topic, or of all."""
        if topic is None:
            return {"messages_missed": self.messages, "gaps_unknown": self.gaps, "hubs_lost": self.hubs}
        loss = self.by_topic.get(topic, TopicLoss())
        return {"messages_missed": loss.messages, "gaps_unknown": loss.gaps}

    def count_hub(self) -> None:
        """Another hub failed, and with it the messages that it had accepted."""
        self.hubs += 1
        self.on_loss(None)
