"""Publish and subscribe in one process.

    equipoise hub &
    python examples/publish_and_subscribe.py

Prints the three scores and who received them.
"""

from __future__ import annotations

import asyncio
import os

import equipoise

URL = os.environ.get("EQUIPOISE_URL", "equipoise://127.0.0.1:6399")


async def main() -> None:
    async with equipoise.connect(URL) as bus, bus.subscribe("scores") as scores:
        # With a receipt: the hub has it, and says how many subscribers it passed it to.
        receipt = await bus.publish("scores", "1:0")
        print(f"the first score went to {receipt.receivers} subscriber")
        # Without one: these leave together, and flush tells if any was refused.
        bus.publish_nowait("scores", "1:1")
        bus.publish_nowait("scores", "2:1")
        await bus.flush()

        async for message in scores.messages():
            print(f"{message.topic} {message.text}")
            if message.text == "2:1":
                break


if __name__ == "__main__":
    asyncio.run(main())
