"""Scenes from the API's replies, on screen and in the report."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from equipoise.lab.demo.report import line_chart, report_page, summary_lines
from equipoise.lab.demo.scene import (
    HubLine,
    PlanEvent,
    Scene,
    TopicLine,
    changes_of,
    hub_lines,
    percentile,
    topic_lines,
)
from equipoise.lab.demo.screen import LineShow, render

CLEAN = {"lost": 0, "duplicated": 0, "out_of_order": 0, "gaps": 0}


def scene(at_s: float, act: str, **more: Any) -> Scene:
    hubs = [HubLine("hub-1", 0.5, 200_000.0, 3.0, 16), HubLine("hub-2", None, None, None, 0)]
    topics = [TopicLine("world/tile/1/1", 90_000.0, 7.0, "all-subscribers", ["hub-1", "hub-2"])]
    return Scene(at_s=at_s, act=act, words=f"About {act}.", players=7, hubs=hubs, topics=topics, **more)


def shown(scenes: list[Scene]) -> str:
    out = io.StringIO()
    with LineShow(Console(file=out, width=300), "the header") as show:
        for one in scenes:
            show(one)
    return out.getvalue()


def test_only_hubs_that_live_are_shown() -> None:
    row = {
        "hub": "a",
        "is_alive": True,
        "load": 0.25,
        "out_bytes_per_s": 5.0,
        "connections": 1.0,
        "weight": 16,
        "site": "west",
    }
    assert hub_lines([row, {**row, "hub": "b", "is_alive": False}]) == [
        HubLine("a", 0.25, 5.0, 1.0, 16, "west")
    ]


def test_a_topic_without_numbers_is_one_without_load() -> None:
    row = {"topic": "t", "out_bytes_per_s": None, "subscribers": None, "mode": "single", "homes": ["a"]}
    assert topic_lines({"topics": [row]}) == [TopicLine("t", 0.0, 0.0, "single", ["a"])]


def test_a_change_has_reasons_and_further_parts_are_counted() -> None:
    entry: dict[str, Any] = {
        "topic": "t",
        "homes": ["a", "b"],
        "mode": "all-publishers",
        "reason": "replicated",
        "numbers": {"x": 0.5},
    }
    freed: dict[str, Any] = {"topic": "u", "homes": [], "mode": None, "reason": "as-ring", "numbers": {}}
    gone: dict[str, Any] = {"hub": "c", "weight": None, "reason": "released", "numbers": {}}
    emptied: dict[str, Any] = {"hub": "d", "weight": 0, "reason": "low-load", "numbers": {}}
    change = {
        "version": 9,
        "at_s": 5.0,
        "moves": 12,
        "entries": [entry, freed, entry, entry],
        "members": [gone, emptied],
    }
    told = [(one.what, one.reason) for one in changes_of(change)]
    assert told == [
        ("t → a, b (all-publishers)", "replicated"),
        ("u → by the ring", "as-ring"),
        ("t → a, b (all-publishers)", "replicated"),
        ("9 more topics", "replicated"),
        ("c is out", "released"),
        ("d is being emptied", "low-load"),
    ]
    assert changes_of(change)[0].numbers == "x 0.5"


def test_lines_show_each_act_and_each_change_once() -> None:
    moved, split = PlanEvent(1, 0.0, "t → a", "operator", ""), PlanEvent(2, 1.0, "t → a, b", "replicated", "")
    text = shown(
        [
            scene(0, "one", changes=[moved]),
            scene(1, "one", changes=[moved, split]),
            scene(2, "two", changes=[split]),
        ]
    )
    assert text.startswith("the header\n")
    assert text.count("== one: About one.") == text.count("== two: About two.") == 1
    assert text.count("t → a: operator") == text.count("t → a, b: replicated") == 1
    assert "lost 0, duplicated 0, out of order 0; hub-1 50 %, hub-2 –" in text


def test_the_screen_shows_hubs_topics_moves_and_what_was_lost() -> None:
    out = io.StringIO()
    told = [
        PlanEvent(number, 0.0, f"topic {number} → a", "high-load", "load_ratio 0.9") for number in range(30)
    ]
    screen = render(scene(3, "one", changes=told, lost=2, latency_ms_p99=12.0), "the header", 24)
    Console(file=out, width=100).print(screen)
    text = out.getvalue()
    for words in (
        "the header",
        "About one.",
        "hub-1",
        "50 %",
        "being emptied",
        "world/tile/1/1",
        "p99 12.0 ms",
        "lost 2",
    ):
        assert words in text
    assert "topic 29" in text and "topic 0 " not in text
    assert len(text.splitlines()) <= 24


def test_the_report_has_a_figure_of_each_kind_every_change_and_the_verdict() -> None:
    told = [PlanEvent(4, 0.0, "<topic> → a", "operator", "")]
    lines = summary_lines(CLEAN, published=10, delivered=20, moves=3, hubs_max=5, homes_max=4)
    page = report_page([scene(0, "one"), scene(1, "one"), scene(2, "two")], told, lines, is_good=True)
    assert page.count("<svg") == 4 and "&lt;topic&gt; → a" in page
    assert "0 lost, 0 duplicated, 0 out of order" in page and "5 hubs" in page
    assert "http://" not in page and "https://" not in page and "<script" not in page


def test_the_summary_says_what_was_wrong() -> None:
    wrong = {**CLEAN, "lost": 2, "out_of_order": 1}
    first, *_ = summary_lines(wrong, published=10, delivered=20, moves=0, hubs_max=3, homes_max=1)
    assert "2 lost; 1 out of order" in first and "duplicated" not in first


def test_a_chart_leaves_holes_where_nothing_was_measured() -> None:
    chart = line_chart("load", [0.0, 1.0, 2.0, 3.0], {"a": [1.0, None, 2.0, 3.0], "b": [None] * 4})
    assert chart.count("<polyline") == 2
    assert line_chart("empty", [], {}).startswith("<svg")


def test_a_percentile_is_a_value_that_occurred() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.50) == 51.0
    assert percentile(values, 0.99) == 100.0
    assert percentile([], 0.5) is None
