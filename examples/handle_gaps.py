"""Count missed messages, and print the reason.

    equipoise hub &
    python examples/handle_gaps.py

The subscriber below queues at most ten messages and reads too late, so ninety of a hundred are dropped. In their place
it receives a gap event with their number. Messages missed while the connection was down are reported by the same event.
"""

from __future__ import annotations

import asyncio
import os

import equipoise

URL = os.environ.get("EQUIPOISE_URL", "equipoise://127.0.0.1:6399")


async def main() -> None:
    async with equipoise.connect(URL, queue_messages_max=10) as bus, bus.subscribe("sensor") as sensor:
        for reading in range(100):
            await bus.publish("sensor", str(reading))

        received = missed = 0
        async for event in sensor:
            match event:
                case equipoise.Gap(missed=None, reason=reason):
                    print(f"some readings may be missing ({reason}): fetch the current state again")
                case equipoise.Gap(missed=int(count), reason=reason):
                    print(f"{count} readings missed ({reason})")
                    missed += count
                case equipoise.Message():
                    print(f"reading {event.text}")
                    received += 1
            if received + missed == 100:
                break


if __name__ == "__main__":
    asyncio.run(main())
