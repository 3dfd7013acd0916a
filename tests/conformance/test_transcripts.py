"""A hub answers as Redis does, byte for byte, in every recorded dialogue.

The same dialogues run with the installed redis-server, so that the transcripts stay true of Redis. A
dialogue in which the two differ names the heading of docs/reference/differences-from-redis.md with the reason.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from conformance.conftest import Servers
from conformance.player import Player
from conformance.transcript import FOLDER, Dialogue, load, parse, render
from support.processes import ROOT, require

DIALOGUES = load()
DIFFERENCES = ROOT / "docs" / "reference" / "differences-from-redis.md"
# Differences that no dialogue can show, and the tests that do.
SHOWN_ELSEWHERE = {
    "the-count-of-publish": ROOT / "tests" / "hub" / "cluster" / "test_filters.py",
    "streams": ROOT / "tests" / "hub" / "test_logs.py",
    "ranges-of-bytes": ROOT / "tests" / "model" / "test_glob.py",
    "commands-and-information": Path(__file__).with_name("test_information.py"),
}


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=str)
def test_a_hub_replies_as_in_the_transcript(dialogue: Dialogue, servers: Servers) -> None:
    server = servers.get("hub", dialogue.world)
    with Player((server.host, server.port)) as player:
        player.play(dialogue, "hub")


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=str)
def test_a_hub_replies_the_same_when_bytes_arrive_one_by_one(dialogue: Dialogue, servers: Servers) -> None:
    server = servers.get("hub", dialogue.world)
    with Player((server.host, server.port), chunk_bytes=1) as player:
        player.play(dialogue, "hub")


@pytest.mark.needs_redis
@pytest.mark.parametrize("dialogue", DIALOGUES, ids=str)
def test_the_transcript_is_true_of_redis(dialogue: Dialogue, servers: Servers) -> None:
    since = dialogue.notes.get("since", "0")
    if redis_version() < version(since):
        pytest.skip(f"Redis has this since {since}")
    server = servers.get("redis", dialogue.world)
    with Player((server.host, server.port)) as player:
        player.play(dialogue, "redis")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_transcript_survives_writing_and_reading(path: Path) -> None:
    text = path.read_text()
    assert render(parse(text, path.stem)) == text


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=str)
def test_redis_and_a_hub_differ_only_in_dialogues_with_a_reason(dialogue: Dialogue) -> None:
    differs = any(answer.server is not None for step in dialogue.steps for answer in step.expected)
    assert differs == ("differs" in dialogue.notes)


def test_every_difference_is_explained_and_every_explanation_shown() -> None:
    headings = re.findall(r"^## (.+)$", DIFFERENCES.read_text(), re.MULTILINE)
    explained = {re.sub(r"[^a-z0-9]+", "-", heading.lower()) for heading in headings}
    shown = {dialogue.notes["differs"] for dialogue in DIALOGUES if "differs" in dialogue.notes}
    assert explained == shown | SHOWN_ELSEWHERE.keys()
    assert all(path.exists() for path in SHOWN_ELSEWHERE.values())


def test_names_of_dialogues_are_unique() -> None:
    names = [str(dialogue) for dialogue in DIALOGUES]
    assert len(names) == len(set(names))


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def redis_version() -> tuple[int, ...]:
    printed = subprocess.run(
        [require("redis-server"), "--version"], capture_output=True, text=True, check=True
    )
    found = re.search(r"v=([0-9.]+)", printed.stdout)
    assert found is not None
    return version(found[1])
