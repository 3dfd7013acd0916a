"""Replicated topics under every kind of trouble, by seed: every message once, in order, no needless word of a gap."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from equipoise.model import Mode

from .worlds import Trouble, World, run

SEEDS = range(20)
FOLLOWERS = Trouble(replications=(2, 7), modes=(Mode.ALL_PUBLISHERS,))
FOLLOWERS_SKEW = Trouble(
    replications=(2, 8),
    moves=(0, 3),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    pauses=(0, 2),
    lag_s=0.3,
)
FOLLOWERS_CRASH = Trouble(replications=(2, 5), crashes=(1, 2), is_gap_allowed=True)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Hubs warn about each client they cut: here that is no news."""
    logger = logging.getLogger("equipoise")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(FOLLOWERS, id="all-publishers"),
        pytest.param(FOLLOWERS_SKEW, id="all-publishers-while-plans-differ-and-links-break"),
        pytest.param(FOLLOWERS_CRASH, id="all-publishers-while-hubs-crash"),
    ],
)
def test_subscribers_of_a_replicated_topic_get_every_message_once_and_in_order(trouble: Trouble) -> None:
    for seed in SEEDS:
        outcomes = run(seed, trouble)
        assert not outcomes.violations, f"seed {seed}: {[str(v) for v in outcomes.violations[:5]]}"
        assert outcomes.history.messages > 50, f"seed {seed}: too little happened"


def test_a_further_home_follows_the_first_whether_or_not_anybody_listens_there() -> None:
    seen: list[tuple[str | None, ...]] = []

    def sources(world: World) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for name in ("h1", "h2", "h3"):
            hub = world.nodes[name].hub
            topic = None if hub is None else hub.core.index.topics.get(b"unheard")
            found.append(None if topic is None or topic.stream is None else topic.stream.source)
        return tuple(found)

    async def story(world: World) -> None:
        await world.until(lambda: world.directory.plan.version > 0, 5.0)
        world.replicate("unheard", ("h1", "h2"), Mode.ALL_PUBLISHERS)
        await world.until(lambda: sources(world)[1] is not None, 5.0)
        seen.append(sources(world))
        world.replicate("unheard", ("h3",), Mode.SINGLE)
        await world.until(lambda: not any(sources(world)), 5.0)
        seen.append(sources(world))

    def prepare(world: World) -> None:
        world.keep(story(world))

    assert not run(1, Trouble(), prepare=prepare).violations
    assert seen == [(None, "h1", None), (None, None, None)]
