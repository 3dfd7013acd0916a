"""The operator's commands on two hubs with a served memory store, all in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.two_hubs import TIMEOUT_S, System
from equipoise.cli.bookies import bookie_rows, bookie_words
from equipoise.cli.hubs import hub_rows
from equipoise.cli.main import app
from equipoise.cli.support.topic_status import edge_row, limit_row
from equipoise.ledger.registration import BookieFacts, Cookie
from equipoise.model import Mode, Placement, Plan
from equipoise.store import MemoryStore, MemoryTree, Tree
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.hubs import HubAlive, HubFacts, HubSeen
from equipoise.store.records.hubs_snapshot import EdgeReport
from equipoise.store.records.ledgers import LedgersStore


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System() as made:
        yield made


def test_hubs_are_listed_with_their_addresses_and_shares(system: System) -> None:
    rows = system.json("hubs", "ls")
    assert [(row["hub"], row["state"], row["site"], row["weight"]) for row in rows] == [
        ("h1", "serving", "paris", 1.0),
        ("h2", "serving", "lyon", 1.0),
    ]
    assert rows[0]["address"] == f"127.0.0.1:{system.members['h1'].hub.port}"
    header, first, *_ = system.run("hubs", "ls").splitlines()
    assert header.split() == ["HUB", "STATE", "ADDRESS", "SITE", "RACK", "WEIGHT", "LOAD", "ENTRIES"]
    assert first.split()[:2] == ["h1", "serving"]


def test_a_topic_is_moved_shown_and_returned_to_the_ring(system: System) -> None:
    client = system.client("h1")
    for home in ("h1", "h2"):
        assert f"news has home {home}" in system.run("move", "news", home, "--wait")
        client.publish("news", "x")
        shown = system.json("topics", "show", "news")
        assert (shown["homes"], shown["placed_by"], shown["is_pinned"]) == ([home], "entry", True)
        states = {row["hub"]: row["state"] for row in shown["hubs"]}
        assert states[home] == "open"
    assert "placed by a plan entry" in system.run("topics", "show", "news")
    system.run("move", "news", "--ring", "--wait")
    assert system.json("topics", "show", "news")["placed_by"] == "ring"


def test_topics_are_listed_once_with_all_hubs_added_up(system: System) -> None:
    system.run("move", "listed", "h2", "--wait")
    subscriber = system.client("h1").pubsub()  # type: ignore[no-untyped-call]  # redis-py leaves it so
    subscriber.subscribe("listed")
    assert subscriber.get_message(timeout=TIMEOUT_S)["type"] == "subscribe"
    system.client("h2").publish("listed", "x")
    assert subscriber.get_message(timeout=TIMEOUT_S)["type"] == "message"
    (row,) = system.json("topics", "ls", "--match", "listed")
    assert row == {
        "topic": "listed",
        "home": "h2",
        "subscribers": 1,
        "published": 1,
        "delivered": 1,
        "mode": "single",
    }
    assert system.json("topics", "ls", "--match", "listed", "--hub", "h1") == []
    assert "listed" in system.run("topics", "ls", "--limit", "1")
    subscriber.close()


def test_filters_of_a_topic_are_listed_with_their_hubs(system: System) -> None:
    subscriber = system.client("h1").pubsub()  # type: ignore[no-untyped-call]  # redis-py leaves it so
    subscriber.psubscribe(
        "$filter quotes volume>150", "$filter quotes volume > 150", "$filter quotes symbol = 'YHOO'"
    )
    for _ in range(3):
        assert subscriber.get_message(timeout=TIMEOUT_S)["type"] == "psubscribe"
    found = system.json("topics", "filters", "quotes")
    assert [(row["hub"], row["filters"]) for row in found["hubs"]] == [("h1", 2), ("h2", 0)]
    assert found["filters"] == [
        {"filter": "volume > 150", "subscriptions": 2, "hubs": ["h1"]},
        {"filter": 'symbol = "YHOO"', "subscriptions": 1, "hubs": ["h1"]},
    ]
    assert "and 1 more" in system.run("topics", "filters", "quotes", "--limit", "1")
    shown = {row["hub"]: row.get("filters") for row in system.json("topics", "show", "quotes")["hubs"]}
    assert shown["h1"] == 2
    subscriber.close()


def test_the_history_has_author_change_and_reason(system: System) -> None:
    system.run("move", "told", "h1", "--why", "its users are in Paris")
    (latest, *earlier) = system.json("plan", "history", "--limit", "100")
    assert latest["entries"][0]["why"] == {
        "reason": "operator",
        "numbers": {},
        "note": "its users are in Paris",
    }
    assert [change["by"] for change in earlier[-2:]] == ["hub h2", "hub h1"]
    line = system.run("plan", "history").splitlines()[1]
    assert "told to h1" in line
    assert "operator (its users are in Paris)" in line
    version = latest["version"]
    assert system.run("plan", "diff", str(version - 1), str(version)) == "+ told to h1, pinned\n"
    assert system.run("plan", "diff", str(version), str(version - 1)) == "- told to the ring\n"
    assert system.run("plan", "diff", str(version), str(version)).endswith("are equal\n")
    assert system.json("plan", "show", "--version", "1")["members"] == [
        {"hub": "h1", "weight": 1.0, "site": "paris"}
    ]


def test_how_a_rate_limit_is_split_is_shown_with_the_plan_and_its_changes(system: System) -> None:
    for shares in ("70,30", "60,40"):
        system.run("replicate", "told", "--mode", "all-subscribers", "--hubs", "h1,h2", "--shares", shares)
    latest, *_ = system.json("plan", "history")
    entry = latest["entries"][0]["entry"]
    assert (entry["shares"], entry["bursts"], entry["seats"], entry["order"]) == ([0.6, 0.4], [], [], 0)
    assert "told to h1 h2 (all-subscribers, shares 60 40 %), pinned" in system.run("plan", "history")
    version = latest["version"]
    assert system.run("plan", "diff", str(version - 1), str(version)) == (
        "~ told to h1 h2 (all-subscribers, shares 60 40 %), pinned "
        "(was h1 h2 (all-subscribers, shares 70 30 %), pinned)\n"
    )
    system.run("topics", "set", "told", "--rate", "100/s")
    # What an operator has asked for, too.
    line = system.run("plan", "history", "--limit", "1").splitlines()[1]
    assert "specs " in line and line.rstrip().endswith("operator")
    system.run("topics", "set", "told", "--rate", "")


def test_a_topic_is_replicated_over_hubs(system: System) -> None:
    system.run("replicate", "hot", "--mode", "all-publishers", "--hubs", "h2,h1")
    shown = system.json("topics", "show", "hot")
    assert (shown["homes"], shown["mode"]) == (["h2", "h1"], "all-publishers")
    system.run("replicate", "hot", "--mode", "content", "--hubs", "h1,h2", "--tree", "h2=h1")
    shown = system.json("topics", "show", "hot")
    assert shown["tree"] == {"h2": "h1"} and set(shown["edges"]) == {"h1", "h2"}
    assert {"state", "input_ratio", "output_ratio", "delay_s", "realised_delay_s"} <= shown["edges"][
        "h2"
    ].keys()
    text = system.run("topics", "show", "hot")
    assert "FOLLOWS" in text and "head" in text
    assert "hot: home h1 h2 (content), placed by a plan entry, pinned, h2 follows h1" in system.run(
        "topics", "show", "hot"
    )
    system.run("replicate", "hot", "--mode", "single", "--hubs", "h1")
    assert system.json("topics", "show", "hot")["homes"] == ["h1"]


def test_specs_are_set_changed_and_removed(system: System) -> None:
    system.run("topics", "set", "game.*", "--latency", "40ms", "--pin", "lyon")
    system.run("topics", "set", "game.log", "--pin", "paris")
    assert [spec["pattern"] for spec in system.json("topics", "specs")] == ["game.log", "game.*"]
    spec = system.json("topics", "show", "game.1")["spec"]
    assert (spec["latency_ms"], spec["rate_per_s"], spec["site"]) == (40.0, None, "lyon")
    assert "latency 40 ms" in system.run("topics", "show", "game.1")
    assert "site paris" in system.run("topics", "specs")
    said = system.run("topics", "set", "game.log", "--pin", "pariss")
    assert "no hub is at site pariss, hubs are at" in said
    # An option that is not given keeps its value; an empty value removes one limit, the last one the spec.
    system.run("topics", "set", "game.*", "--pin", "", "--latency", "50ms")
    spec = system.json("topics", "show", "game.1")["spec"]
    assert (spec["latency_ms"], spec["site"]) == (50.0, None)
    assert "removed spec game.log" in system.run("topics", "set", "game.log", "--pin", "")
    system.run("topics", "set", "feed", "--rate", "10/s", "--burst", "7")
    assert system.json("topics", "set", "feed", "--burst", "")["burst_messages"] is None
    system.run("topics", "unset", "feed")
    said = system.run("topics", "set", "quotes", "--attributes", "first-line")
    assert "attributes in first-line" in said
    assert "removed spec quotes" in system.run("topics", "set", "quotes", "--attributes", "")
    system.run("topics", "unset", "game.*")
    assert system.json("topics", "show", "game.1")["spec"] is None


def test_a_hub_is_drained_and_given_topics_again(system: System) -> None:
    client = system.client("h1")
    for i in range(20):
        client.publish(f"drained.{i}", "x")
    system.run("hubs", "drain", "h2", "--wait", "--why", "new disk")
    assert system.json("topics", "ls", "--hub", "h2") == []
    assert {row["hub"]: row["state"] for row in system.json("hubs", "ls")}["h2"] == "drained"
    system.run("hubs", "weigh", "h2", "0.5")
    assert {row["hub"]: row["weight"] for row in system.json("hubs", "ls")}["h2"] == 0.5
    system.run("hubs", "weigh", "h2", "1")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("move", "t", "h9"), "members are: h1, h2"),
        (("move", "t"), "give a HUB, or --ring"),
        (("replicate", "t", "--mode", "single", "--hubs", "h1,h2"), "single but has 2 homes"),
        (("replicate", "t", "--mode", "single", "--hubs", "h1,h2"), "the entry of t is"),
        (("replicate", "t", "--mode", "all-publishers", "--hubs", ","), "--hubs a,b,c"),
        (
            ("replicate", "t", "--mode", "all-publishers", "--hubs", "h1,h2", "--tree", "h2=h1"),
            "for mode content",
        ),
        (
            ("replicate", "t", "--mode", "all-subscribers", "--hubs", "h1,h2", "--shares", "70,nan"),
            "together they are 100",
        ),
        (
            ("replicate", "t", "--mode", "all-subscribers", "--hubs", "h1,h2", "--shares", "0,100"),
            "each is above 0",
        ),
        (("replicate", "t", "--mode", "content", "--hubs", "h1"), "no edge"),
        (("replicate", "t", "--mode", "content", "--hubs", "h1,h2", "--tree", "h2=h9"), "names h9"),
        (("replicate", "t", "--mode", "content", "--hubs", "h1,h2", "--tree", "h2"), "such as c=b,d=b"),
        (("hubs", "drain", "h9"), "members are: h1, h2"),
        (("hubs", "forget", "h1"), "drain it and stop it first"),
        (("plan", "show", "--version", "999"), "the latest is"),
        (("topics", "set", "t", "--latency", "40"), "such as 40ms"),
        (("topics", "set", "t", "--durable", "3"), "such as 3/3/2"),
        (("topics", "set", "t", "--attributes", "headers"), "give one of payload, first-line"),
        (("topics", "set", "t", "--quantile", "0.9"), "a quantile needs a latency limit: give --latency too"),
        (("topics", "set", "t", "--latency", "40ms", "--quantile", "1"), "between 0 and 1"),
        (("topics", "set", "t", "--rate", "0/s"), "between 0.001 and 10000000 messages per second"),
        (("topics", "set", "t", "--rate", "-5/s"), "between 0.001 and 10000000 messages per second"),
        (("topics", "set", "t", "--rate", "nan/s"), "between 0.001 and 10000000 messages per second"),
        (("topics", "set", "t", "--rate", "inf/s"), "between 0.001 and 10000000 messages per second"),
        (("topics", "set", "t", "--rate", "5"), "such as 500/s"),
        (("topics", "set", "t", "--burst", "5"), "it needs a rate"),
        (("topics", "set", "t", "--wait", "5s"), "it needs a rate"),
        (("topics", "set", "t", "--rate", "5/s", "--burst", "0"), "between 1 and 10000000 messages"),
        (("topics", "set", "t", "--rate", "5/s", "--wait", "61s"), "between 0 and 60000 ms"),
        (("topics", "set", "t", "--rate", "5/s", "--burst", "1.5"), "give a whole number of messages"),
        (("topics", "set", "t", "--durable", "1/1/1", "--retain", "7d,8d"), "at most one age and one size"),
        (("topics", "set", "t"), "nothing to change: name what to set, such as --latency, --rate, --durable"),
        (("topics", "unset", "t"), "`equipoise topics specs`"),
        (("topics", "ls", "--hub", "h9"), "`equipoise hubs ls`"),
        (("users", "ls"), "every client has full access"),
    ],
)
def test_invalid_operations_are_rejected_with_a_remedy(
    system: System, words: tuple[str, ...], text: str
) -> None:
    assert text in " ".join(system.run(*words, exit_code=2).split())


def test_a_command_without_a_store_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    result = CliRunner().invoke(app, ["hubs", "ls"])
    assert result.exit_code == 2
    assert "--store" in result.output
    assert "EQUIPOISE_STORE" in result.output


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (("--durable", "billing"), "its mark is a position in the whole topic"),
        (("--pattern",), "a filter is for topics by name"),
    ],
)
def test_a_filter_is_rejected_for_other_kinds_of_topics(option: tuple[str, ...], text: str) -> None:
    result = CliRunner().invoke(app, ["sub", "t", "--where", "a = 1", *option])
    assert result.exit_code == 2
    assert text in " ".join(result.output.replace("│", " ").split())


def test_the_delay_of_a_limited_topic_is_that_of_one_message() -> None:
    limit = dict.fromkeys(("share_rate_per_s", "share_burst", "admitted", "waiting", "refused"), 0.0)
    relay = limit | {"delayed": 27.0, "delay_s": 27.0}
    home = limit | {
        "share_rate_per_s": 10.0,
        "share_burst": 3.0,
        "admitted": 50.0,
        "delayed": 10.0,
        "delay_s": 25.0,
    }
    assert limit_row({"hub": "h1", "limit": relay}) == ["h1", None, 0, 0, 0, "1000.0 ms"]
    assert limit_row({"hub": "h2", "limit": home}) == ["h2", "10/s, 3", 50, 0, 0, "500.0 ms"]
    assert limit_row({"hub": "h3"}) == ["h3", *[None] * 5]


def test_bookies_have_plain_numbers_in_json_and_units_in_tables() -> None:
    facts = BookieFacts(
        name="b1", host="127.0.0.1", port=1, rack="r1", free_bytes=2**30, total_bytes=2**32, sync_us_p99=1500
    )

    async def rows() -> list[dict[str, Any]]:
        store = await MemoryStore(MemoryTree(lambda: 0.0)).open()
        await LedgersStore(store, Tree()).prepare("i")
        bookies = BookiesStore(store, Tree())
        await bookies.register(facts)
        await bookies.add_cookie(Cookie(bookie="b2", directory="d", instance="i"))
        return await bookie_rows(bookies)

    here, lost = asyncio.run(rows())
    assert (here["state"], here["used"], here["free_bytes"], here["sync_s_p99"]) == (
        "writable",
        0.75,
        2**30,
        0.0015,
    )
    assert (lost["state"], lost["address"], lost["free_bytes"]) == ("lost", None, None)
    assert bookie_words(here) == {
        "bookie": "b1",
        "state": "writable",
        "address": "127.0.0.1:1",
        "site": None,
        "rack": "r1",
        "used": "75 %",
        "free": "1.0 GiB",
        "sync p99": "1.5 ms",
    }


def test_edges_of_content_topics_are_listed_with_their_load_ratios() -> None:
    edge = EdgeReport("sampling", 0.456, 0.3, 0.0234, 12)
    facts = HubFacts(hub="h1", address="h1:1", incarnation=1)
    (row,) = hub_rows(Plan.of(), {"h1": HubSeen(facts, HubAlive(facts=facts, edge=edge))})
    assert row["edge"] == {
        "state": "sampling",
        "input_ratio": 0.456,
        "output_ratio": 0.3,
        "delay_s": 0.0234,
        "subscriptions": 12,
    }
    placement = Placement(("h0", "h1"), Mode.CONTENT)
    numbers = {"state": "ok", "subscriptions": 12.0, "sessions": 3.0} | {
        f"{when}{name}": value
        for when in ("", "estimated_", "realised_")
        for name, value in (("input_ratio", 0.456), ("output_ratio", 0.3), ("delay_s", 0.0234))
    }
    told = "0.46/0.30/23.40 ms"
    assert edge_row("h1", placement, numbers) == ["h1", "h0", "ok", 12, told, 3, told, told]
    assert edge_row("h0", placement, {"state": ""}) == ["h0", None, "head", *[None] * 5]
    joined = {"state": "", "cluster_state": "joined"}
    assert edge_row("h0", placement, joined) == ["h0", None, "head joined", *[None] * 5]
    moved = joined | {"publishers_moved": 3.0}
    assert edge_row("h0", placement, moved)[2] == "head joined, 3 publishers moved"
    not_compared = numbers | {"realised_delay_s": 0.0}
    assert edge_row("h1", placement, not_compared)[-2:] == [None, None]
