"""`equipoise up` when a part of it cannot run, or runs and hangs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest
import redis.asyncio

from equipoise.local import Layout, LocalSystem, SystemSettings
from equipoise.processes import HealthSettings, Phase, PhaseChange
from local.up_world import Up, require_java
from support.ports import write_ports

pytestmark = pytest.mark.needs_java


@pytest.mark.parametrize(
    ("part", "text", "words"),
    [
        ("hub", "no_such_setting = 1\n", r"equipoise: hub-1 does not start: .*no_such_setting"),
        (
            "controller",
            '[planner]\nservers_max = "x"\n',
            r"equipoise: controller does not start: .*servers_max",
        ),
    ],
)
def test_invalid_settings_end_everything_with_the_error_of_the_process_that_rejects_them(
    up: Up, tmp_path: Path, part: str, text: str, words: str
) -> None:
    config = tmp_path / "bad.toml"
    config.write_text(text)
    up.start("--hubs", "2", "--no-pipeline", f"--{part}-config", str(config))
    assert up.status() == 2
    assert re.search(words, up.said), up.said
    assert "stopped" in up.said and "Traceback" not in up.said
    up.until(lambda: not up.processes(), f"left: {up.processes()}")


def test_a_hub_that_hangs_is_started_again_and_serves(tmp_path: Path) -> None:
    require_java()
    changes: list[PhaseChange] = []
    health = HealthSettings(every_s=0.2, timeout_s=1.0, failures_max=3)
    settings = SystemSettings(hubs=1, has_pipeline=False, has_controller=False, health=health)

    async def scene() -> None:
        write_ports(tmp_path / "data")
        layout = Layout(tmp_path / "data")
        async with LocalSystem(layout, settings, on_change=changes.append) as system:
            first = system.supervisor.pid("hub-1")
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            async with asyncio.timeout(60.0):
                while system.supervisor.restarts("hub-1") < 1 or not system.is_ready:  # noqa: ASYNC110  no event
                    await asyncio.sleep(0.05)
            ports = json.loads((layout.root / "ports.json").read_text())
            async with redis.asyncio.Redis(port=ports["hub-1"]) as client:
                assert await client.publish("news", "hello") == 0

    asyncio.run(scene())
    assert any("hangs" in change.detail for change in changes if change.phase is Phase.WAITING)
