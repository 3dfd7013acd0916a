"""Clusters under all faults, by seed: every message once, in order, without needless gaps."""

from __future__ import annotations

import itertools

import pytest

from equipoise.lab.scenarios import SCENARIOS
from equipoise.lab.scenarios.excused import EXCUSED

from .worlds import case, check_seeds, run

# Those that have once failed are listed below; campaigns of thousands are for `equipoise simulate`.
SEEDS = range(6)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-calm",
        "cluster-links",
        "cluster-moves",
        "cluster-skew",
        "cluster-ring",
        "cluster-crashes",
        "cluster-stops",
        "cluster-zombies",
        "cluster-cuts",
        "cluster-users",
        "cluster-everything",
    ],
)
def test_subscribers_of_any_hub_get_every_message_once_and_in_order(name: str) -> None:
    check_seeds(name, SEEDS)


def test_links_that_drop_frames_cause_gaps() -> None:
    check_seeds("cluster-narrow", range(5))


def test_clients_and_hubs_survive_cuts_of_minutes() -> None:
    check_seeds("cluster-cuts-minutes", range(2))


MENDED = [
    # An acknowledged message died in a hub that its home had never heard of as a feeder, or in the next home.
    *[("cluster-everything", seed) for seed in (106, 109, 202, 203, 312, 336, 350)],
    ("cluster-replication-crashes", 7),
    ("cluster-followers-crashes", 7),
    ("cluster-routed-everything", 5),
    # A publisher went on in a lane before subscribers knew what had died with the trunk's home.
    *[("cluster-replication-everything", seed) for seed in (14, 27)],
    # A hub took the late answer to a subscription that it had left for a lane that it followed.
    ("cluster-routed-replication", 117),
    # Messages that a link had given up were numbered, and not counted where plain subscribers by pattern miss them.
    *[("cluster-narrow", seed) for seed in (19, 29, 53)],
    # Lanes of a hub that came back with an earlier clock; lanes that began while a subscriber was away.
    *[("cluster-everything", seed) for seed in (448, 614, 667, 811, 872)],
    # What had come of a lane and waited for the trunk was given up when the lane's hub died.
    ("cluster-unlimited", 1995),
    # A hub that passed messages on went by the whole envelope, not by the lane's share, and left others no turn.
    *[("limits-shares", seed) for seed in (46, 55)],
    # A client took a hub for dead that owed it replies: its pings waited behind them.
    ("limits-relays", 27),
    # The order of two buses of one program, of which no hub knows that they are one: the checker's fault.
    ("cluster-routed-everything", 89),
    # A subscriber by pattern was told of a dead feeder before the home of the topic knew of the death; a lane depended
    # on an epoch of the trunk that no subscriber had been told of.
    *[("cluster-replication-everything", seed) for seed in (113, 117)],
    # A lane that had gone on behind a loss ended without another message: clients did not take the end.
    ("cluster-replication-everything", 355),
    # Clients of a dead hub went on in the trunk, and messages of that hub's lane still waited at another hub.
    ("cluster-replication-everything", 430),
    # The next home announced repetitions that had died with the hub they came through: new subscribers waited for them.
    ("cluster-replication-everything", 471),
    # A publisher that left a hub was given a position in the stream that the hub had changed to, not in its own one.
    ("cluster-routed-replication-everything", 305),
    # A subscriber by pattern waited for two topics that came by filters: each time one was widened, the other was not.
    ("cluster-everything", 1709),
    # A flush did not wait for publishes that a hub had deferred, over a link made during the flush.
    ("cluster-routed-everything", 406),
    # A hub that found its name still taken in the store gave up, and no supervisor started it again.
    ("cluster-store-everything", 447),
    # Subscribers were told of the end of a lane that they did not know.
    ("cluster-replication-everything", 476),
    # A plan that changed shares alone passed over streams that waited for other hubs: they waited for ever.
    *[("cluster-everything", seed) for seed in (553, 600, 793, 886, 994, 1551)],
    # What a dead hub had passed on to the home was sent again; the shares of limits did not grow after a failover.
    ("cluster-replication-crashes", 0),
    ("limits-everything", 15),
    # A hub that the others had declared dead while the store was out of its reach went on: it was told only once it
    # had spoken.
    ("cluster-store-losses", 78),
    # Messages that the former home had numbered before it handed the topic over were sent again when it died: they came
    # twice, and the gap that was told of them was too large.
    *[("cluster-unlimited", seed) for seed in (222, 1720)],
    # A publisher went to a home that had been replaced and did not know it, from where its messages were numbered.
    ("cluster-routed-failover", 179),
    # A hub that had stood still past its session acknowledged messages before it knew that it had been declared dead;
    # one that came back found a hub that had begun meanwhile, and went on as if it had not been missed.
    *[("cluster-store-unlimited", seed) for seed in (36, 153, 263, 288)],
    # A hub that was to be the home acknowledged messages, and died before it was; the former home went on in its epoch.
    ("cluster-everything", 1717),
    # The home's epoch followed a loss, and no message came in it: the next ones came in a lane that began meanwhile.
    ("cluster-everything", 1033),
    # The log was opened and appended to at a hub before the topic's home was there: subscribers by pattern missed it.
    ("content-durable", 110),
    # A hub took a filtered run of a hub that it had left, which did not know its filters any more.
    ("content-trees-routed", 174),
    # A hub that had restarted could not ask the home of a tree's topic yet, and did not ask when the tree was gone.
    *[("content-trees-crashes", seed) for seed in (575, 581)],
    # Messages of a parent that was left before it was followed went ahead of those that the home sent for a pattern.
    ("content-trees", 774),
    # The next home waited for the end of an epoch from its parent, which had lost its own and waited for the next home.
    ("content-trees-crashes", 972),
    # A hub waited for all messages before it confirmed filters, though no child needed all of them any more.
    *[("content-trees-wanderers", seed) for seed in (619, 910)],
    # What was to be sent again after a home's death and found no room in the link was given up without a gap.
    ("cluster-narrow", 32),
    # A publisher of the limited topic waited for ever.
    ("cluster-store-everything", 120),
    # The token that is kept for a refused publisher was kept for the same one every time.
    ("limits-shares", 112),
    # A share of 0.4/s, of which a relay with ten messages ahead has half: they took longer than the 20 s of the case.
    ("limits-bursts", 178),
    # A bucket that was asked several times during one stall held more than its depth and 20 ms of its rate.
    ("limits-clocks", 329),
    # A publisher was put behind one that came back at once, and refused for ever.
    ("limits-everything", 71),
    ("limits-store-everything", 30),
    # A hub that was to be the home answered a subscriber where its old source was, behind another hub.
    ("cluster-routed-everything", 20003),
    # A new home gave up waiting for its log when an earlier wait would have ended, or did not wait for what it had.
    *[("cluster-store-durable", seed) for seed in (39, 67, 135, 187)],
    # A smart client without redirects waited for a lane that had ended while it was away.
    ("cluster-everything", 207),
    # A hub that had come back opened a topic of its former life before a hub that it had not met had sent again.
    ("cluster-narrow", 254),
    # A publisher named a position in the stream that its hub was just leaving, or in a lane that was over at its hub
    # and not elsewhere: its next message overtook the one before.
    *[("cluster-lanes-roving", seed) for seed in (20004, 20087, 20092)],
    # A lane had ended and was named again before its end came to a hub: that counted a loss between the two.
    ("cluster-lanes", 20031),
    *[("cluster-lanes-plain", seed) for seed in (20014, 20046)],
    ("cluster-lanes-roving", 20096),
    # A refused publisher that came back too early lost the token that was kept for it, every time.
    ("cluster-everything", 358),
    # A lane that was over waited for the trunk, which the hub, where a client had a pattern alone, did not follow any
    # more: the lane did not wait any longer, and the trunk's old messages came behind it.
    ("cluster-replication", 253),
    # The subscriber by hand did not wait for a lane that another hub than its base had named first: the subscriber's
    # fault.
    ("cluster-lanes-roving", 184),
    # A lane was named again before its end had come to a hub, whose subscribers then heard of no end when its hub died.
    ("cluster-replication-everything", 20029),
    # A publisher that had lost its hub did not know in which stream, and where, its last message was.
    ("cluster-routed-replication-clients", 20048),
    # A publisher took the late answer to an earlier question for the answer to its present one, and went on too early.
    ("limits-seats-balance", 80),
    # The only hub paused past its session, and did not wait for the store: hubs that it did not know had begun anew.
    ("limits-zombie", 332),
    # A home did not report a loss when a life of a hub ended that it had never known, but the former home had.
    ("limits-zombie", 467),
    # A hub that had relayed messages of a durable topic became its home and sent them to pattern subscribers again.
    ("cluster-durable", 16),
    # The owner of a log acknowledged messages before it had the topic, which then moved on: the next home did not know
    # that no hub had sent them to subscribers.
    ("cluster-store-durable", 131),
    # A hub was the home for a moment without its log, and relayed again what the next home sent again.
    ("cluster-store-durable", 248),
    # The controller ended when the store did not answer in time as it began to watch bookies or the leader.
    *[("cluster-store-controlled", seed) for seed in (103, 128)],
    # And a hub restarted under a controller that had not known its former life: no plan gave it topics.
    ("cluster-store-controlled", 150),
    # The checker read a log while its next owner opened it.
    ("content-durable", 486),
    # The checker expected messages that had been sent before the filtered subscription was confirmed again.
    ("limits-everything", 1096),
    # The checker counted one part of a token for all hubs of a split topic.
    ("limits-used", 903),
    # A hub left a lane while messages of it waited, and then awaited an end of the lane that its hub did not send.
    ("limits-everything", 1241),
    # A paused hub was confirmed by one that had lost the store as well, just before the store declared it dead.
    *[("limits-zombie", seed) for seed in (1356, 1999)],
    # A hub that had just restarted took the publisher's former hub for dead, and reported its link as ended.
    ("limits-seats-crashes", 1940),
    # A hub restarted with an earlier clock before its lane had a message: clients took the new lane for the old one.
    ("cluster-everything", 4924),
    # A hub whose session had ended acknowledged messages between the end of its links and its next handshake.
    ("cluster-store-losses", 304),
    # The end of one lane continued a stream that ended other lanes of the same hub, in the middle of the list of them.
    ("cluster-routed-replication-everything", 215),
]


@pytest.mark.parametrize(("name", "seed"), MENDED)
def test_a_seed_that_once_failed_stays_green(name: str, seed: int) -> None:
    # Each was drawn for what went wrong in it, however little was said.
    check_seeds(name, range(seed, seed + 1), messages_min=0)


def test_seeds_that_are_listed_still_fail() -> None:
    """Otherwise they are mended, and have to go from the list."""
    for name, seed in EXCUSED:
        assert run(seed, case(name)).violations, f"take ({name!r}, {seed}) from the list"


def test_listed_seeds_have_cases_and_reasons() -> None:
    assert {name for name, _ in EXCUSED} <= set(SCENARIOS)
    assert all(EXCUSED.values())


def test_every_kind_of_fault_happens_in_the_cases_with_all_faults() -> None:
    missing = {"move", "ring change", "replication", "join", "link reset", "link cut", "client reset"}
    missing |= {"hub pause", "zombie", "hub crash", "cut", "rules change", "store cut", "store reset"}
    for seed, name in itertools.product(range(6), ("cluster-everything", "cluster-store-everything")):
        missing -= set(run(seed, case(name)).fired)
        if not missing:
            return
    assert not missing


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(3, case("cluster-skew")).hash == run(3, case("cluster-skew")).hash
