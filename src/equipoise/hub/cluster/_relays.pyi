from collections.abc import Sequence
from typing import Any

from equipoise.hub.cluster.link.incoming import InLink
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.topic import Topic

class Relays:
    """The relayed messages of one hub."""

    def __init__(self, *parts: Any) -> None: ...
    def execute(
        self, peer: str, link: InLink, data: bytes, start: int, words_max: int, size_max: int, /
    ) -> int: ...
    def submit(self, topic: Topic, payloads: Sequence[bytes], /) -> bytes | Reply: ...

def learn(*types_and_values: Any) -> None: ...
