"""The API of a real controller on a store in memory, asked over loopback."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import urllib.request
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import StoreUnavailableError
from equipoise.ledger.metadata import LedgerMetadata, Segment
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.registration import BookieFacts, Cookie
from equipoise.model import WEIGHT_NORMAL, Entry, TopicSpec
from equipoise.model.names import from_id, to_id
from equipoise.store import MemoryStore, SpecsStore
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.ledgers import LedgersStore
from equipoise.store.records.topic_logs import LogLedger, LogNode, TopicLogsStore
from equipoise.telemetry.load import CPU_FULL_RATIO
from equipoise.web.auth import AuthVerdict, judge
from equipoise.web.metrics import METRICS
from equipoise.web.routes import ROUTES, describe
from web.site_world import HOT, TOKEN, TREE, Site, play


def test_the_overview_has_the_state_of_the_cluster() -> None:
    async def scenario(site: Site) -> None:
        status, found = await site.ask("/api/overview")
        assert status == 200
        assert (found["hubs"], found["topics"], found["leader"]) == (2, 3, "one")
        assert found["publications_per_s"] == pytest.approx(51.5)
        assert found["latency_ms"]["p99"] == pytest.approx(50)
        status, hubs = await site.ask("/api/hubs")
        assert [(hub["hub"], hub["is_alive"], hub["weight"], hub["load"]) for hub in hubs] == [
            ("a", True, 1.0, pytest.approx(0.5 / CPU_FULL_RATIO)),
            ("b", True, 1.0, pytest.approx(0.1 / CPU_FULL_RATIO)),
        ]
        assert found["hubs_without_bandwidth"] == ["a", "b"]

    play(scenario)


def test_the_overview_names_a_command_that_could_not_start_a_hub() -> None:
    async def scenario(site: Site) -> None:
        problem = None
        while not problem:
            status, found = await site.ask("/api/overview")
            assert status == 200
            problem = found["provisioner_problem"]
        assert problem == "/bin/false start hub-1 ended with status 1: no output"

    play(scenario, provision="/bin/false")


def test_health_and_overview_name_a_problem_of_the_store() -> None:
    async def scenario(site: Site) -> None:
        health = site.controller.store_health
        assert (await site.ask("/healthz")) == (200, b"ok\n")
        assert (await site.ask("/api/overview"))[1]["store_problem"] is None
        health.failed("plan", StoreUnavailableError("the store did not answer within 10 s"))
        # The process works: a supervisor does not restart it.
        assert (await site.ask("/healthz")) == (200, b"store: plan: the store did not answer within 10 s\n")
        _, found = await site.ask("/api/overview")
        assert found["store_problem"] == "plan: the store did not answer within 10 s"
        assert b"equipoise_controller_has_store_problem 1.0" in (await site.ask("/metrics"))[1]

    play(scenario)


def test_bookies_and_logs_are_shown_as_in_the_store() -> None:
    async def scenario(site: Site) -> None:
        store = await MemoryStore(site.stores).open()
        bookies, ledgers = BookiesStore(store, TREE), LedgersStore(store, TREE)
        await ledgers.prepare("instance")
        facts = BookieFacts(name="b1", host="h", port=1, free_bytes=40, total_bytes=100, sync_us_p99=2_500)
        await bookies.register(facts)
        for name in ("b1", "b2"):
            await bookies.add_cookie(Cookie(bookie=name, directory=name, instance="instance"))
        for number, members in enumerate((("b1",), ("b1", "b2"))):
            quorum = Quorum(len(members), len(members), 1)
            await ledgers.create(LedgerMetadata(number, quorum, (Segment(0, members),), b"secret"))
        node = LogNode(owner="a", incarnation=1, epoch=3, ledgers=(LogLedger(1, 3),))
        await TopicLogsStore(store, TREE).save(HOT, node, None)
        status, found = await site.ask("/api/durable")
        assert status == 200
        assert [(row["bookie"], row["state"], row["ledgers"]) for row in found["bookies"]] == [
            ("b1", "writable", 2),
            ("b2", "lost", 1),
        ]
        assert found["bookies"][0]["sync_s_p99"] == pytest.approx(0.0025)
        assert (found["ledgers"], found["ledgers_under_replicated"]) == (2, 1)
        assert [(row["id"], row["owner"], row["ledgers"], row["log_lag"]) for row in found["logs"]] == [
            (to_id(HOT), "a", 1, 0.0)
        ]
        _, text = await site.ask("/metrics")
        assert b'equipoise_bookie_free_bytes{bookie="b1"} 40.0' in text
        assert b"equipoise_ledgers_under_replicated 1.0" in text
        await store.close()

    play(scenario)


def test_curves_are_returned_whole_or_since_a_time() -> None:
    async def scenario(site: Site) -> None:
        status, whole = await site.ask("/api/curves")
        assert status == 200
        assert whole["loads"]["a"] == pytest.approx([0.5 / CPU_FULL_RATIO])
        assert whole["loads"]["b"] == pytest.approx([0.1 / CPU_FULL_RATIO])
        assert whole["latency_ms_p99"] == pytest.approx([50])
        assert whole["loop_lag_ms_worst"] == [0.0]
        first_s = whole["at_s"][0]
        status, rest = await site.ask(f"/api/curves?since_s={first_s}")
        assert status == 200 and rest["at_s"] == [] and rest["loads"] == {}
        for bad in ("-1", "nan", "inf", "x", "1_0", "9" * 40):
            status, found = await site.ask(f"/api/curves?since_s={bad}")
            assert status == 400 and found["error"]

    play(scenario, is_renewed=False)


def test_topics_are_searched_sorted_and_paged() -> None:
    async def scenario(site: Site) -> None:
        _, found = await site.ask("/api/topics")
        assert found["total"] == 3
        assert [topic["topic"] for topic in found["topics"]][:2] == ["game/tile 1\\xff", "calm"]
        _, found = await site.ask("/api/topics?sort=name&offset=1&limit=1")
        assert [topic["topic"] for topic in found["topics"]] == ["game/tile 1\\xff"]
        _, found = await site.ask("/api/topics?search=QUI")
        assert [topic["topic"] for topic in found["topics"]] == ["quiet"]
        for bad in ("sort=x", "offset=-1", "limit=0", "limit=1e3", "offset=99999999999999"):
            status, found = await site.ask(f"/api/topics?{bad}")
            assert status == 400 and found["error"]

    play(scenario)


def test_a_topic_is_found_by_its_id_whatever_bytes_its_name_has() -> None:
    async def scenario(site: Site) -> None:
        _, found = await site.ask("/api/topics")
        status, topic = await site.ask(f"/api/topics/{found['topics'][0]['id']}")
        assert status == 200
        assert topic["topic"] == "game/tile 1\\xff" and topic["carried_by"] == {"a": 1.0}
        assert topic["curve"]["publications_per_s"] == [50.0]
        assert topic["envelope"] is None and topic["content"] is None
        status, unknown = await site.ask("/api/topics/not~2Fin~2Fuse")
        assert status == 200 and unknown["topic"] == "not/in/use" and unknown["homes"]

    play(scenario, is_renewed=False)


def test_an_operator_with_the_token_moves_drains_and_limits() -> None:
    async def scenario(site: Site) -> None:
        _, found = await site.ask("/api/topics", token=TOKEN)
        hot = found["topics"][0]["id"]
        status, moved = await site.ask("/api/move", body={"topic": hot, "hubs": ["b"]}, token=TOKEN)
        assert status == 200
        plan = await site.plan()
        assert plan.version == moved["version"] and plan.entries[HOT] == Entry(HOT, ("b",), is_pinned=True)
        _, changes = await site.ask(f"/api/topics/{hot}/plans", token=TOKEN)
        assert changes[0]["entries"][0]["homes"] == ["b"] and changes[0]["entries"][0]["reason"] == "operator"
        status, _ = await site.ask("/api/drain", body={"hub": "b"}, token=TOKEN)
        assert status == 200
        plan = await site.plan()
        assert plan.by_hub["b"].weight == 0 and plan.entries[HOT].homes == ("a",)
        status, _ = await site.ask("/api/limits", body={"pattern": "game*", "latency_ms": 40}, token=TOKEN)
        assert status == 200
        specs = await SpecsStore(await MemoryStore(site.stores).open(), TREE).load()
        assert [(spec.pattern, spec.latency_ms) for spec in specs] == [(b"game*", 40.0)]
        status, found = await site.ask(
            "/api/limits", body={"pattern": "game*", "latency_ms": ""}, token=TOKEN
        )
        assert status == 200 and found == {"pattern": "game*", "spec": None, "behind": ["a", "b"]}

    play(scenario, token=TOKEN)


def test_a_limit_changes_only_named_fields_and_returns_the_result() -> None:
    async def scenario(site: Site) -> None:
        specs = SpecsStore(await MemoryStore(site.stores).open(), TREE)
        await specs.put(TopicSpec(pattern=b"game*", rate_per_s=500.0, burst_messages=9, latency_ms=40.0))
        status, found = await site.ask("/api/limits", body={"pattern": "game*", "site": "paris"}, token=TOKEN)
        assert status == 200
        said = found["spec"]
        assert (said["latency_ms"], said["rate_per_s"], said["burst_messages"]) == (40.0, 500.0, 9)
        assert said["site"] == "paris"
        body = {"pattern": "game*", "latency_ms": "", "site": ""}
        _, found = await site.ask("/api/limits", body=body, token=TOKEN)
        assert found["spec"]["rate_per_s"] == 500.0
        assert (await specs.get(b"game*")) == TopicSpec(pattern=b"game*", rate_per_s=500.0, burst_messages=9)
        async with asyncio.timeout(60):
            while (listed := (await site.ask("/api/limits", token=TOKEN))[1]) != [found["spec"]]:
                assert [row["pattern"] for row in listed] in ([], ["game*"])
        _, topic = await site.ask("/api/topics/game~2Ftile~201~FF", token=TOKEN)
        (share,) = topic["envelope"].pop("shares")
        assert share == {
            "hub": topic["homes"][0],
            "rate_per_s": 500.0,
            "burst_messages": 9.0,
            "seats_ratio": 1.0,
            "publications_per_s": None,
            "waiting": None,
        }
        # Why nothing better is known; which of the reasons depends on whether a view has come.
        assert topic["envelope"].pop("fit_doubt")
        assert topic["envelope"] == {
            "rate_per_s": 500.0,
            "burst_messages": 9,
            "wait_ms": 1_000.0,
            "access_delay_s_max": 0.0,
            "fit": None,
            "seat_order": 0,
            "hubs": [],
        }

    play(scenario, token=TOKEN)


def test_a_drained_hub_gets_topics_again() -> None:
    async def scenario(site: Site) -> None:
        assert (await site.ask("/api/drain", body={"hub": "b"}, token=TOKEN))[0] == 200
        assert (await site.plan()).by_hub["b"].weight == 0
        for body in ({"topic": "t", "hubs": ["b"]}, {"hub": "a"}):
            path = "/api/drain" if "hub" in body else "/api/move"
            status, found = await site.ask(path, body=body, token=TOKEN)
            # One hub is drained, the other is the last that takes topics.
            assert status == 400 and ("drained" in found["error"] or "start another" in found["error"])
        status, found = await site.ask("/api/weigh", body={"hub": "b"}, token=TOKEN)
        assert status == 200 and found["weight"] == 1.0
        assert (await site.plan()).by_hub["b"].weight == WEIGHT_NORMAL

    play(scenario, token=TOKEN)


def test_nothing_is_moved_to_a_dead_hub_nor_the_last_living_one_drained() -> None:
    async def scenario(site: Site) -> None:
        await site.kill("b")
        status, found = await site.ask("/api/move", body={"topic": "t", "hubs": ["b"]}, token=TOKEN)
        assert status == 400 and "b is dead" in found["error"]
        for path, body in (("/api/drain", {"hub": "a"}), ("/api/weigh", {"hub": "a", "weight": 0})):
            status, found = await site.ask(path, body=body, token=TOKEN)
            assert status == 400 and "start another hub" in found["error"]

    play(scenario, token=TOKEN)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/move", {"topic": "t", "hubs": ["unknown"]}),
        ("/api/move", {"topic": "t", "hubs": ["a", "b"], "mode": "single"}),
        ("/api/move", {"topic": 3}),
        ("/api/move", {"hubs": []}),
        ("/api/move", b"{"),
        ("/api/move", b"\xff"),
        ("/api/move", b"[" * 100_000),
        ("/api/drain", {"hub": "unknown"}),
        ("/api/limits", {"pattern": "x", "latency_ms": -1}),
        ("/api/limits", {"pattern": "", "latency_ms": 5}),
        ("/api/limits", {"pattern": "x", "latency_ms": None}),
        ("/api/limits", {"pattern": "x", "latency_ms": "40ms"}),
        ("/api/limits", {"pattern": "x", "latency_ms": 0}),
        ("/api/limits", {"pattern": "x", "site": None}),
        ("/api/limits", {"pattern": "x"}),
        ("/api/limits", {"pattern": "x", "unknown": 1}),
        ("/api/weigh", {"hub": "unknown"}),
        ("/api/weigh", {"hub": "a", "weight": 17}),
        ("/api/weigh", {"hub": "a", "weight": None}),
    ],
)
def test_invalid_actions_are_rejected_with_a_reason_and_change_nothing(path: str, body: object) -> None:
    async def scenario(site: Site) -> None:
        before = await site.plan()
        status, found = await site.ask(path, body=body, token=TOKEN)
        assert status == 400 and found["error"]
        assert (await site.plan()).version == before.version
        assert len(await SpecsStore(await MemoryStore(site.stores).open(), TREE).load()) == 0

    play(scenario, token=TOKEN)


def test_without_the_right_token_nothing_is_shown_or_changed() -> None:
    async def scenario(site: Site) -> None:
        for token in ("", "wrong", TOKEN + "x"):
            for route in ROUTES:
                body = {"hub": "b"} if route.method == "POST" else None
                status, found = await site.ask(route.path.replace("{topic}", "t"), body=body, token=token)
                assert status == 401 and "token" in found["error"], route.path
            assert (await site.ask("/metrics", token=token))[0] == 401
        assert (await site.plan()).by_hub["b"].weight > 0
        assert (await site.ask("/healthz"))[0] == 200

    play(scenario, token=TOKEN)


def test_without_a_token_set_loopback_may_read_and_no_client_may_act() -> None:
    async def scenario(site: Site) -> None:
        assert (await site.ask("/api/hubs"))[0] == 200
        status, found = await site.ask("/api/drain", body={"hub": "b"})
        assert status == 401 and "read-only" in found["error"]
        # A page of another site, whose host name resolves to this controller.
        status, found = await site.ask("/api/hubs", headers={"Host": "evil.example"})
        assert status == 401 and "loopback" in found["error"]

    play(scenario)


def test_no_cookie_gives_access() -> None:
    """Browsers send cookies to every port of a host: what opened something here would be known to all servers there."""

    async def scenario(site: Site) -> None:
        cookies = f"equipoise-token={urllib.parse.quote(TOKEN, safe='')}; token={TOKEN}"
        assert (await site.ask("/api/hubs", headers={"Cookie": cookies}))[0] == 401
        status, _ = await site.ask("/api/drain", body={"hub": "b"}, headers={"Cookie": cookies})
        assert status == 401

    play(scenario, token=TOKEN)


def test_with_loopback_reads_a_local_client_reads_without_the_token_and_acts_with_it() -> None:
    local: dict[str, Any] = {"token": TOKEN, "peer": "127.0.0.1", "host": "localhost:6398"}
    for shown, is_change, verdict in (
        ("", False, AuthVerdict.ALLOWED),
        ("", True, AuthVerdict.NEEDS_TOKEN),
        ("wrong", False, AuthVerdict.NEEDS_TOKEN),
        (TOKEN, True, AuthVerdict.ALLOWED),
    ):
        assert judge(**local, shown=shown, is_change=is_change, is_loopback_free=True) is verdict
    away = {**local, "peer": "192.0.2.7"}
    assert judge(**away, shown="", is_change=False, is_loopback_free=True) is AuthVerdict.FOREIGN
    evil = {**local, "host": "evil.example"}
    assert judge(**evil, shown="", is_change=False, is_loopback_free=True) is AuthVerdict.FOREIGN


def test_metrics_are_those_of_the_table_with_a_limited_number_of_topics() -> None:
    async def scenario(site: Site) -> None:
        status, text = await site.ask("/metrics")
        assert status == 200
        lines = text.decode().splitlines()
        shown = {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
        assert shown == {name for name, *_ in METRICS}
        assert 'equipoise_hub_cpu_ratio{hub="a"} 0.5' in lines
        assert any(line.startswith("equipoise_topic_subscribers{") for line in lines)

    play(scenario)


def test_open_pages_get_every_change() -> None:
    async def scenario(site: Site) -> None:
        def read() -> list[dict[str, Any]]:
            with urllib.request.urlopen(site.address + "/api/events", timeout=20) as stream:
                found: list[dict[str, Any]] = []
                while len(found) < 2:
                    line = stream.readline()
                    if line.startswith(b"data: "):
                        found.append(json.loads(line[6:]))
                return found

        one, two = await asyncio.to_thread(read)
        assert two["view_age_s"] > one["view_age_s"]

    play(scenario, is_renewed=False)


def test_the_page_and_its_files_are_served_here_and_load_nothing_else() -> None:
    async def scenario(site: Site) -> None:
        status, page = await site.ask("/")
        assert status == 200 and b"http://" not in page and b"https://" not in page
        for part in (
            "app.js",
            "acts.js",
            "api.js",
            "pages.js",
            "show.js",
            "style.css",
            "vendor/uPlot.iife.min.js",
        ):
            status, text = await site.ask(f"/static/{part}")
            assert status == 200 and text, part
        assert (await site.ask("/static/../app.py"))[0] == 404

    play(scenario)


@given(st.binary(max_size=40))
def test_every_name_has_an_id_of_its_own_that_survives_an_address(name: bytes) -> None:
    text = to_id(name)
    assert from_id(text) == name
    assert urllib.parse.quote(text) == text and text.strip(".")


@pytest.mark.parametrize("text", ["", "~1", "~zz", "a/b", "ü", "~2f"])
def test_an_invalid_id_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not an id"):
        from_id(text)


def test_the_description_names_every_route_with_its_body() -> None:
    described = describe()
    for route in ROUTES:
        operation = described["paths"][route.path][route.method.lower()]
        assert operation["summary"] == route.summary
        assert ("requestBody" in operation) == (route.body is not None)
    assert set(described["components"]["schemas"]) >= {"Move", "Drain", "Weigh", "SpecChange"}
