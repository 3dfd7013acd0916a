"""Publish and subscribe in one process.

    equipoise hub &
    python examples/publish_and_subscribe.py

Prints the number of subscribers that received the first score, then the three scores.
"""

from __future__ import annotations

import asyncio
import os

import equipoise

URL = os.environ.get("EQUIPOISE_URL", "equipoise://127.0.0.1:6399")


async def main() -> None:
    async with equipoise.connect(URL) as bus, bus.subscribe("scores") as scores:
        # Waits for the hub's receipt, which has the number of subscribers that the message was sent to.
        receipt = await bus.publish("scores", "1:0")
        print(f"the first score went to {receipt.receivers} subscriber")
        # Does not wait: both are sent in one write. `flush` waits for their receipts, and raises if one was rejected.
        bus.publish_nowait("scores", "1:1")
        bus.publish_nowait("scores", "2:1")
        await bus.flush()

        async for message in scores.messages():
            print(f"{message.topic} {message.text}")
            if message.text == "2:1":
                break


if __name__ == "__main__":
    asyncio.run(main())
