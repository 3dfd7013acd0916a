"""Follow every topic that matches a pattern, while several publishers share one connection.

equipoise hub &
python examples/follow_many_topics.py
"""

from __future__ import annotations

import asyncio
import os

import equipoise

URL = os.environ.get("EQUIPOISE_URL", "equipoise://127.0.0.1:6399")
DRONES = ("amber", "birch", "cedar")
REPORTS = 3


async def fly(bus: equipoise.Bus, drone: str) -> None:
    for height_m in range(REPORTS):
        await bus.publish(f"drone.{drone}.height", str(height_m))


async def watch(reports: equipoise.Subscription) -> None:
    left = len(DRONES) * REPORTS
    async for message in reports.messages():
        print(f"{message.topic} is at {message.text} m")
        left -= 1
        if left == 0:
            return


async def main() -> None:
    async with (
        equipoise.connect(URL) as bus,
        bus.psubscribe("drone.*.height") as reports,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(watch(reports))
        for drone in DRONES:
            group.create_task(fly(bus, drone))


if __name__ == "__main__":
    asyncio.run(main())
