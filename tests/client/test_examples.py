"""The examples do what their docstrings describe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.processes import ROOT, ServerProcess, hub

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with hub() as process:
        yield process


def output_of(name: str, server: ServerProcess, *arguments: str, typed: str = "") -> list[str]:
    address = {"EQUIPOISE_URL": f"equipoise://127.0.0.1:{server.port}", "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env=os.environ | address,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.splitlines()


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "publish_and_subscribe.py",
        "follow_many_topics.py",
        "handle_gaps.py",
        "filter_earthquakes.py",
        # In tests/pipeline/test_topic_source.py, where there is a Spark.
        "topics_in_spark.py",
    }


def test_publish_and_subscribe_prints_every_score(server: ServerProcess) -> None:
    assert output_of("publish_and_subscribe.py", server) == [
        "the first score went to 1 subscriber",
        "scores 1:0",
        "scores 1:1",
        "scores 2:1",
    ]


def test_follow_many_topics_prints_every_report_of_every_drone_in_order(server: ServerProcess) -> None:
    lines = output_of("follow_many_topics.py", server)
    for drone in ("amber", "birch", "cedar"):
        own = [line for line in lines if drone in line]
        assert own == [f"drone.{drone}.height is at {height} m" for height in range(3)]
    assert len(lines) == 9


def test_handle_gaps_accounts_for_every_reading(server: ServerProcess) -> None:
    gap, *readings = output_of("handle_gaps.py", server)
    match = re.fullmatch(r"(\d+) readings missed \(queue full\)", gap)
    assert match is not None
    missed = int(match[1])
    assert missed > 80
    assert readings == [f"reading {reading}" for reading in range(missed, 100)]


def test_filter_earthquakes_prints_what_each_filter_matches(server: ServerProcess) -> None:
    *lines, last = output_of("filter_earthquakes.py", server)
    assert last == "10 earthquakes were published"
    assert [line for line in lines if line.startswith("great: ")] == [
        "great: magnitude 8.8, offshore Bio-Bio, Chile, 2010-02-27",
        "great: magnitude 9.1, near the east coast of Honshu, Japan, 2011-03-11",
        "great: magnitude 8.6, off the west coast of northern Sumatra, 2012-04-11",
    ]
    assert [line.rpartition(", ")[2] for line in lines if line.startswith("Chile: ")] == [
        "2010-02-27",
        "2014-04-01",
        "2015-09-16",
    ]
    assert [line for line in lines if line.startswith("Alaska")] == [
        "Alaska, strong: magnitude 8.2, near Perryville, Alaska, 2021-07-29"
    ]
    assert len(lines) == 7


def test_filter_earthquakes_takes_a_feed(server: ServerProcess) -> None:
    feed = {
        "type": "FeatureCollection",
        "features": [
            {"properties": {"mag": mag, "place": place, "time": 0, "type": "earthquake", "felt": None}}
            for mag, place in ((2.1, "5 km N of Adak, Alaska"), (5.5, "5 km N of Adak, Alaska"), (None, "X"))
        ],
    }
    assert output_of("filter_earthquakes.py", server, "-", typed=json.dumps(feed)) == [
        "Alaska, strong: magnitude 5.5, 5 km N of Adak, Alaska, 1970-01-01",
        "3 earthquakes were published",
    ]
