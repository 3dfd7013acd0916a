"""What `equipoise topics show` prints about a latency limit; a real controller is asked over HTTP."""

from __future__ import annotations

from pathlib import Path

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
    ("worst_s", "expected_s", "is_held", "words"),
    [
        (0.0123, 0.02, True, "latency 12.3 ms worst, 20.0 ms expected at its home: limit met"),
        (None, 0.05, False, "latency 50.0 ms expected at its home: limit broken"),
        (None, None, None, "latency unknown: no client has reported a coordinate"),
    ],
)
def test_the_latency_is_one_line_of_text(
    worst_s: float | None, expected_s: float | None, is_held: bool | None, words: str
) -> None:
    found = {"latency_s_worst": worst_s, "latency_s_expected": expected_s, "is_held": is_held}
    assert latency_words(found) == words


def test_without_a_controller_the_latency_is_unknown() -> None:
    assert "no controller" in latency_words(None)
