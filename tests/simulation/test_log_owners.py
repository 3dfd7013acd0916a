"""Hubs that take over a log from each other lose no acknowledged entry; without each safeguard a checker reports it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from equipoise.hub.logs.live_log import LiveLog
from equipoise.hub.shell.log_fold import LogFold
from equipoise.lab.simulation.ablation import replaced
from equipoise.ledger.memory import MemoryLedgers
from equipoise.store.records.topic_logs import LogNode, StoredLog, TopicLogsStore
from simulation.log_owners import LogHistory, check_owners, play_owners

SEEDS = 30
# Seeds within which a missing safeguard has to show.
PATIENCE = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Logs that cannot be opened yet are what these worlds are about."""
    logger = logging.getLogger("equipoise.hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_acknowledged_entries_are_kept_under_any_owner(seed: int) -> None:
    history = play_owners(seed)
    assert check_owners(history) == []
    assert history.acked, "the world has to make progress"


def test_every_kind_of_fault_happens() -> None:
    histories = [play_owners(seed) for seed in range(5)]
    assert sum(history.uncertain for history in histories) > 10
    assert all(len(history.epochs) > 3 for history in histories)
    assert any(history.shown for history in histories)


def test_a_seed_always_gives_the_same_history() -> None:
    assert play_owners(3) == play_owners(3)


async def _no_fencing(ledgers: MemoryLedgers, ledger: int) -> int:
    """The apparent end, while the writer continues."""
    return ledgers._find(ledger).confirmed


@contextmanager
def _overwriting() -> Iterator[None]:
    async def save(
        records: TopicLogsStore, topic: bytes, node: LogNode, version: int | None
    ) -> StoredLog | None:
        saved = await _SAVE(records, topic, node, version)
        if saved is not None:
            return saved
        now = await records.load(topic)
        return await _SAVE(records, topic, node, now.version)

    with replaced(TopicLogsStore, "save", save):
        yield


def _at_once(live: LiveLog, tell: Callable[[bool], None]) -> None:
    tell(True)


_SAVE = TopicLogsStore.save
_FORGET = LiveLog._forget_state


def _keep_state(live: LiveLog) -> None:
    """Go on with the state that was ahead."""
    state = live.log
    _FORGET(live)
    live.log = state


def _with(owner: Any, name: str, replacement: object) -> Callable[[], AbstractContextManager[None]]:
    return lambda: replaced(owner, name, replacement)


async def _only_new(fold: LogFold, ledger: int, last: int, payloads: list[bytes]) -> None:
    """Read no stored entry."""


SAFEGUARDS = {
    "fencing": _with(MemoryLedgers, "recover", _no_fencing),
    "compare-and-set": _overwriting,
    "replies wait for the commit": _with(LiveLog, "when_committed", _at_once),
    "reads wait for the commit": _with(LiveLog, "is_ahead", property(lambda live: False)),
    "the log is folded": _with(LogFold, "_fold", _only_new),
}


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_missing_safeguard_is_noticed(name: str) -> None:
    def problems(seed: int) -> list[str]:
        try:
            return check_owners(play_owners(seed))
        except AssertionError as problem:
            return [str(problem)]

    with SAFEGUARDS[name]():
        assert any(problems(seed) for seed in range(PATIENCE)), f"no checker misses: {name}"


def test_the_checkers_detect_violations() -> None:
    good = LogHistory(
        acked=[(0, 0, b"1-0"), (0, 1, b"2-0")], final=[(b"1-0", b"0.0"), (b"2-0", b"0.1")], epochs=[1, 2]
    )
    assert check_owners(good) == []
    for change in (
        {"final": [(b"1-0", b"0.0")]},
        {"final": [(b"1-0", b"0.0"), (b"2-0", b"0.1"), (b"3-0", b"0.1")]},
        {"acked": [(0, 1, b"2-0"), (0, 0, b"1-0")]},
        {"shown": [[b"0.1"]]},
        {"epochs": [2, 1]},
    ):
        history = LogHistory(**{**vars(good), **change})
        assert check_owners(history) != []
