"""What `equipoise topics show` prints about a latency limit; a real controller is asked over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.cli.support.latency_status import latency_words, topic_latency
from equipoise.errors import SettingsError
from equipoise.store import LeaderFacts, LeaderStore, MemoryStore, Tree
from web.site_world import TOKEN, Site, play
from web.test_map import show_located

REGION = "elsewhere"


def test_the_leader_is_asked_with_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    token_file = str(tmp_path / "token")

    async def scenario(site: Site) -> None:
        await show_located(site)
        store = await MemoryStore(site.stores).open()
        assert await topic_latency(store, REGION, b"swarm/2", token_file) is None
        await LeaderStore(store, Tree(REGION)).claim(LeaderFacts(name="one", http=site.address))
        assert await topic_latency(store, REGION, b"swarm/2", "") is None
        found = await topic_latency(store, REGION, b"swarm/2", token_file)
        assert found is not None
        assert (found["latency_s_worst"], found["latency_limit_ms"], found["is_held"]) == (0.061, 40.0, False)
        with pytest.raises(SettingsError, match="token file"):
            await topic_latency(store, REGION, b"swarm/2", str(tmp_path / "none"))

    play(scenario, token=TOKEN)


def test_a_controller_that_does_not_answer_is_passed_over() -> None:
    async def scenario(site: Site) -> None:
        store = await MemoryStore(site.stores).open()
        await LeaderStore(store, Tree(REGION)).claim(LeaderFacts(name="one", http="http://127.0.0.1:1"))
        assert await topic_latency(store, REGION, b"t", "") is None

    play(scenario)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            {
                "latency_s_p50": 0.002,
                "latency_s_p99": 0.0031,
                "latency_s_max": 0.004,
                "latency_s_worst": 0.128,
                "latency_quantile": 0.99,
                "is_held": True,
            },
            "latency measured p50 2.0 ms, p99 3.1 ms, max 4.0 ms; estimated by coordinates 128.0 ms worst: "
            "limit at quantile 0.99 met",
        ),
        (
            {"latency_s_worst": 0.0123, "latency_s_expected": 0.02, "latency_quantile": 0.5, "is_held": True},
            "latency estimated by coordinates 12.3 ms worst, 20.0 ms at its home: limit at quantile 0.5 met",
        ),
        ({"latency_s_p50": 0.002}, "latency measured p50 2.0 ms"),
        ({}, "latency unknown: no round trip of a publisher and a subscriber has been measured"),
    ],
)
def test_the_latency_is_one_line_of_text(found: dict[str, Any], words: str) -> None:
    assert latency_words(found) == words


def test_without_a_controller_the_latency_is_unknown() -> None:
    assert "no controller" in latency_words(None)
