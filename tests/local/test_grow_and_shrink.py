"""`equipoise up --hubs 1 --max-hubs 3` under load: it grows and shrinks by itself, without losing a message."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from equipoise.client import ClientSettings
from equipoise.lab.demo import CONTROLLER_TOML
from equipoise.lab.scenarios.game import Game
from equipoise.lab.workload.game import GameLoad
from local.up_world import Up

pytestmark = [
    pytest.mark.needs_java,
    pytest.mark.needs_spark,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("up"),
]
# For machines with much else to do; an idle one needs a tenth of it for each step.
PATIENCE_S = 300.0
# Few players fill a hub: two dozen of them on nine tiles have it send about 300 kB/s.
HUB_BYTES_PER_S = 150_000
GAME = Game(tiles_per_side=3, payload_bytes=1_000, updates_per_s=3.0)
CROWD, REST = 24, 2


def test_hubs_follow_the_load_up_and_down_and_nothing_is_lost(up: Up, tmp_path: Path) -> None:
    """1. One hub; players come. 2. There is more than it can send: hubs join, and take topics over.

    3. Most players leave. 4. A hub is emptied and stopped, while the others talk on. 5. Everything has arrived, once.
    """
    (tmp_path / "hub.toml").write_text(f"[telemetry]\nout_bytes_per_s_max = {HUB_BYTES_PER_S}\n")
    (tmp_path / "controller.toml").write_text(CONTROLLER_TOML)
    configs = (
        "--hub-config",
        str(tmp_path / "hub.toml"),
        "--controller-config",
        str(tmp_path / "controller.toml"),
    )
    up.start("--hubs", "1", "--max-hubs", "3", *configs)
    up.until_up()
    verdict = asyncio.run(played(up))
    assert verdict == {"lost": 0, "duplicated": 0, "out_of_order": 0, "gaps": 0}


async def played(up: Up) -> dict[str, int]:
    # Where players are in the network is not what this is about.
    load = GameLoad(
        [f"equipoise://127.0.0.1:{up.port}"], GAME, settings=ClientSettings(coordinate_enabled=False)
    )
    try:
        await load.start()
        load.set_players(CROWD)
        await until(lambda: serving(up) >= 2, "no hub was added", up)
        load.set_players(REST)
        await until(
            lambda: bool(re.search(r"^hub-\d+ stopped", up.said, re.MULTILINE)), "no hub was released", up
        )
        assert load.tally.published > 0 and load.players == REST
        load.set_players(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while load.tally.verdict()["lost"]:  # noqa: ASYNC110  messages have no event
                    await asyncio.sleep(0.2)
        return load.tally.verdict()
    finally:
        await load.stop()


async def until(is_so: Callable[[], bool], words: str, up: Up) -> None:
    """Asked in a thread, so that the players go on."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(is_so):  # noqa: ASYNC110  other processes have no event
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"{words}; it said:\n{up.said}") from None


def serving(up: Up) -> int:
    """Hubs that live and have topics."""
    return sum(bool(row["is_alive"] and row["weight"]) for row in up.ask("/api/hubs") or ())
