"""Count messages that subscribers of this hub missed, per topic and in total.

Subscribers that follow positions receive a gap. Plain Redis subscribers cannot: for them the loss is
counted here, where they are connected, so that an operator sees what they missed. A hub learns of a loss by positions
(a hole, an epoch that follows an unknown end), or by the death of another hub, which may have taken messages of any
topic with it.

Always true: the sums count every loss; `by_topic` has the latest TOPICS_MAX topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Losses", "TopicLoss"]

# Topics with losses that are remembered for INFO.
TOPICS_MAX = 1_024


@dataclass(slots=True)
class TopicLoss:
    """What was lost of one topic before it came to this hub."""

    # Messages, where positions say how many.
    messages: int = 0
    # Times that an unknown number may be missing.
    gaps: int = 0


class Losses:
    """Owned by the core of one hub."""

    def __init__(self) -> None:
        self.messages = 0
        self.gaps = 0
        # Other hubs that died, or whose link lost frames: each may have cost messages of any topic.
        self.hubs = 0
        self.by_topic: dict[bytes, TopicLoss] = {}
        # Called with the topic; None: messages of any topic may be missing.
        self.on_loss: Callable[[bytes | None], object] = lambda topic: None

    def count(self, topic: bytes, messages: int | None) -> None:
        """So many messages of the topic never come; None: an unknown number."""
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
        """For INFO and metrics: of one topic, or over all."""
        if topic is None:
            return {"messages_missed": self.messages, "gaps_unknown": self.gaps, "hubs_lost": self.hubs}
        loss = self.by_topic.get(topic, TopicLoss())
        return {"messages_missed": loss.messages, "gaps_unknown": loss.gaps}

    def count_hub(self) -> None:
        """Another hub was lost, with whatever it had taken."""
        self.hubs += 1
        self.on_loss(None)
