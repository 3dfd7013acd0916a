"""A demo with a missed act reports it and fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console
from typer.testing import CliRunner

from equipoise.cli import demo
from equipoise.cli.main import make_app
from equipoise.lab.demo import Show, story
from equipoise.lab.demo.acts import Act, Until
from equipoise.lab.demo.scene import Scene
from equipoise.lab.demo.swarm import Following
from equipoise.lab.workload.game import GameTally

GROWING = Act(
    title="A crowd", words="It comes.", players=3, seconds_min=0.0, seconds_max=0.05, until=Until.GROWN
)
STAYING = Act(title="Nothing", words="It stays.", players=3, seconds_min=0.0, seconds_max=0.05)


class Stub:
    """Stands for load, watcher, mover and swarm: everything is possible, nothing happens."""

    def __init__(self, hubs: int, homes: int) -> None:
        self.hubs, self.homes = hubs, homes
        self.players, self.site, self.tally = 0, "", GameTally()

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def settle(self, seconds: float) -> None: ...
    def hush(self) -> None: ...
    def set_players(self, players: int) -> None: ...

    def homes_of(self, topic: str) -> int:
        return self.homes

    async def look(self, act: Act, at_s: float) -> Scene:
        return Scene(at_s=at_s, act=act.title, words=act.words, players=0)


def played(monkeypatch: pytest.MonkeyPatch, *, hubs: int, homes: int) -> Show:
    monkeypatch.setattr(story, "LOOK_S", 0.01)
    stub = cast(Any, Stub(hubs, homes))
    show = Show(stub, stub, stub, ["hub-1"], stub)
    asyncio.run(show.play([STAYING, GROWING], lambda _: None))
    return show


def test_an_act_whose_condition_was_not_met_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert played(monkeypatch, hubs=1, homes=1).missed == [GROWING]
    assert played(monkeypatch, hubs=2, homes=1).missed == [GROWING]
    assert played(monkeypatch, hubs=2, homes=2).missed == []


@pytest.mark.parametrize(("missed", "status"), [([GROWING], 1), ([], 0)])
def test_the_demo_fails_if_an_act_was_missed_and_names_it(
    missed: list[Act], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = {"lost": 0, "duplicated": 0, "out_of_order": 0, "gaps": 0}
    show = SimpleNamespace(
        verdict=lambda: verdict,
        moves=1,
        hubs_max=3,
        homes_max=1,
        following=Following(),
        missed=missed,
        watcher=SimpleNamespace(scenes=[], changes=[]),
    )

    async def tell(console: Console, *, is_short: bool) -> tuple[object, object]:
        return show, SimpleNamespace(tally=GameTally())

    monkeypatch.setattr(demo, "tell", tell)
    told = CliRunner().invoke(make_app(["demo"]), ["demo", "--report", str(tmp_path / "report.html")])
    assert told.exit_code == status, told.output
    words = 'In "A crowd" something did not happen within 0.05 s: a hub is added'
    assert (words in told.output) is bool(missed)
    assert ("something did not happen" in (tmp_path / "report.html").read_text()) is bool(missed)
