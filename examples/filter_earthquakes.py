"""Filter a JSON feed at the hub: the earthquakes of the U.S. Geological Survey.

    equipoise hub &
    python examples/filter_earthquakes.py
    curl -s https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/all_week.geojson |
        python examples/filter_earthquakes.py -

A publisher sends each earthquake of the feed, a GeoJSON feature, to one topic. Each subscriber has a filter, and the
hub sends it the matching earthquakes only. Without a feed the program publishes some large earthquakes in the same
format.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

import equipoise

URL = os.environ.get("EQUIPOISE_URL", "equipoise://127.0.0.1:6399")
WANTED = {
    "great": "properties.mag >= 8.5",
    "Chile": "properties.place suffix 'Chile'",
    "Alaska, strong": "properties.place contains 'Alaska' and properties.mag > 5 and properties.type = 'earthquake'",
}
# Magnitude, place, and time in UTC.
LARGE = (
    (8.8, "offshore Bio-Bio, Chile", "2010-02-27T06:34:11"),
    (9.1, "near the east coast of Honshu, Japan", "2011-03-11T05:46:24"),
    (8.6, "off the west coast of northern Sumatra", "2012-04-11T08:38:36"),
    (8.3, "Sea of Okhotsk", "2013-05-24T05:44:48"),
    (8.2, "near Iquique, Chile", "2014-04-01T23:46:47"),
    (7.8, "near Bharatpur, Nepal", "2015-04-25T06:11:25"),
    (8.3, "near Illapel, Chile", "2015-09-16T22:54:32"),
    (7.8, "near Amberley, New Zealand", "2016-11-13T11:02:56"),
    (8.2, "near Tres Picos, Mexico", "2017-09-08T04:49:19"),
    (8.2, "near Perryville, Alaska", "2021-07-29T06:15:49"),
)


def features() -> list[dict[str, Any]]:
    """The earthquakes of the feed on standard input if the argument is `-`, else of the table above."""
    if sys.argv[1:] == ["-"]:
        found: list[dict[str, Any]] = json.load(sys.stdin)["features"]
        return found
    return [
        {
            "type": "Feature",
            "properties": {
                "mag": magnitude,
                "place": place,
                "time": int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() * 1_000),
                "type": "earthquake",
            },
        }
        for magnitude, place, at in LARGE
    ]


async def listen(name: str, quakes: equipoise.Subscription) -> None:
    async for message in quakes.messages():
        facts = json.loads(message.payload)["properties"]
        day = datetime.fromtimestamp(facts["time"] / 1_000, UTC).date()
        print(f"{name}: magnitude {facts['mag']}, {facts['place']}, {day}")


async def main() -> None:
    async with equipoise.connect(URL) as bus:
        subscriptions = {name: bus.subscribe("earthquakes", where=where) for name, where in WANTED.items()}
        async with asyncio.TaskGroup() as group:
            for name, quakes in subscriptions.items():
                # Subscribe here, so that every subscription is confirmed before the first message is published.
                await quakes.__aenter__()
                group.create_task(listen(name, quakes))
            sent = 0
            for feature in features():
                await bus.publish("earthquakes", json.dumps(feature))
                sent += 1
            # The hub delivers a message before it replies to its publisher on the same connection. The tasks still
            # print the received messages, then end.
            for quakes in subscriptions.values():
                quakes.close()
        print(f"{sent} earthquakes were published")


if __name__ == "__main__":
    asyncio.run(main())
