"""Write a run of messages to those for whom one write of one encoding is not enough.

`HubCore.publish` serves subscribers that take a message in a single form; these are the others: subscribers with
several forms, and the links to hubs that follow the topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.resp.frames import interleaved

if TYPE_CHECKING:
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.backlog import Backlogs
    from equipoise.hub.data.topics import Topic

# A message in many forms is written in pieces of this size: what transports take before they are full.
MIXED_PIECE_BYTES = 64 * 1024


def deliver_mixed(
    backlogs: Backlogs, topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]
) -> None:
    """Deliver to subscribers that get a message in several forms: all of one message before the next.

    One client may have thousands of patterns that match the topic, so what a run becomes has no bound. It is
    written in pieces, and no further than anybody is left who takes it.
    """
    for encoders, sessions in audience.mixed:
        takers = sessions
        for frames, piece in interleaved(encoders, first, payloads, MIXED_PIECE_BYTES):
            backlogs.messages = frames
            topic.bytes_out += len(piece) * len(takers)
            for session in takers:
                session.write(piece)
            takers = [session for session in takers if not session.is_closing]
            if not takers:
                break


def deliver_to_hubs(topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]) -> None:
    """What goes to other hubs is counted apart: it reaches clients there, and is counted as delivered there."""
    data = audience.encode_for_hubs(first, payloads)
    links = audience.hubs
    if (meter := topic.trunk.meter) is not None:
        meter.note_egress(len(payloads) * len(links), len(data) * len(links))
    for link in links:
        link.write(data)
