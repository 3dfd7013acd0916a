"""Every operation of the API, with valid and invalid requests: never a server error, always JSON.

The description is the one that a controller serves; what it does not tell is not tested here, and what it tells wrongly
fails.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.control.controller import Controller
from equipoise.control.provision import NoProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.model import Plan
from equipoise.model.names import to_id
from equipoise.plan import Static
from equipoise.store import HubFacts, HubsStore, LeaderFacts, MemoryStore, MemoryTree, PlanStore
from equipoise.web import ClusterFacts, WebSettings, make_app
from equipoise.web.actions import Actions
from equipoise.web.routes import ROUTES, describe
from web.asking import Answer, ask
from web.schemas import anything, fits, matching
from web.site_world import HOT, TOKEN, TREE, Views, some_view

OPERATIONS = [(method.upper(), path) for path, one in describe()["paths"].items() for method in one]
HINTS: dict[str, list[Any]] = {
    "hub": ["a", "b"],
    "hubs": [[], ["a"], ["a", "b"]],
    "topic": [to_id(HOT), "calm"],
    "pattern": ["game*"],
}
EVENTS = "/api/events"


class World:
    """A controller and its application on a loop that runs only while something is asked."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._running: asyncio.Task[None] | None = None
        runner.run(self._start())
        answer = self.ask("GET", "/api/openapi.json")
        self.described: dict[str, Any] = json.loads(answer.body)
        self.schemas: dict[str, Any] = self.described["components"]["schemas"]

    async def _start(self) -> None:
        self._tree = MemoryTree(asyncio.get_running_loop().time)
        for name in ("a", "b"):
            own = await MemoryStore(self._tree).open()
            await HubsStore(own, TREE).announce(HubFacts(hub=name, address=f"{name}:1", incarnation=1))
        store, views = await MemoryStore(self._tree).open(), Views()
        controller = Controller(
            store,
            TREE,
            ControllerSettings(period_s=0.05),
            policy=Static(),
            views=views,
            provisioner=NoProvisioner(),
            facts=LeaderFacts(name="one"),
        )
        self._running = asyncio.create_task(controller.run())
        async with asyncio.timeout(30):
            while len(controller.knowledge.plan.members) < 2:  # noqa: ASYNC110  what a task learns has no event
                await asyncio.sleep(0.01)
        views.latest = some_view()
        facts = ClusterFacts(controller, time.time)
        facts.refresh()
        # No hub follows specs here: a request that waits for them says so and goes on.
        actions = Actions(store, TREE, specs_timeout_s=0.01)
        self._app = make_app(facts, actions, WebSettings(token=TOKEN, refresh_interval_s=0.01))

    def ask(
        self,
        method: str,
        target: str,
        *,
        body: bytes = b"",
        token: str = TOKEN,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        shown = {"authorization": f"Bearer {token}"} if token else {}
        bytes_max = 200 if target.startswith(EVENTS) else None
        asking = ask(
            self._app, method, target, headers=shown | (headers or {}), body=body, bytes_max=bytes_max
        )
        return self._runner.run(asyncio.wait_for(asking, 20))

    def plan(self) -> Plan:
        async def load() -> Plan:
            return await PlanStore(await MemoryStore(self._tree).open(), TREE).load()

        return self._runner.run(load())

    def stop(self) -> None:
        async def end() -> None:
            assert self._running is not None
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

        self._runner.run(end())


@contextmanager
def a_world() -> Iterator[World]:
    with asyncio.Runner() as runner:
        world = World(runner)
        try:
            yield world
        finally:
            world.stop()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with a_world() as made:
        yield made


def fuzzed(examples: int) -> settings:
    """Starting a controller for every example would leave no time for examples; none depends on an earlier one."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


def check(world: World, method: str, path: str, answer: Answer) -> None:
    """The answer is one that the description has, in the form it says."""
    described = world.described["paths"][path][method.lower()]["responses"]
    assert answer.status < 500, answer.body
    assert str(answer.status) in described, (answer.status, answer.body)
    content = described[str(answer.status)]["content"]
    assert answer.media in content
    if answer.media == "application/json":
        assert fits(strict(answer.body), content[answer.media]["schema"], world.schemas)


def strict(body: bytes) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(body, parse_constant=refuse)


def parameters(world: World, method: str, path: str, *, where: str) -> list[dict[str, Any]]:
    return [one for one in world.described["paths"][path][method.lower()]["parameters"] if one["in"] == where]


def body_schema(world: World, method: str, path: str) -> dict[str, Any] | None:
    wanted = world.described["paths"][path][method.lower()].get("requestBody")
    return None if wanted is None else wanted["content"]["application/json"]["schema"]


def target(path: str, place: dict[str, str], query: dict[str, Any]) -> str:
    for name, value in place.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    words = "&".join(f"{quote(name)}={quote(str(value), safe='')}" for name, value in query.items())
    return f"{path}?{words}" if words else path


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@fuzzed(40)
@given(data=st.data())
def test_valid_requests_are_answered_as_described(
    world: World, method: str, path: str, data: st.DataObject
) -> None:
    place = {"topic": to_id(data.draw(st.binary(max_size=20)))} if "{topic}" in path else {}
    optional = {
        one["name"]: matching(one["schema"], world.schemas, {})
        for one in parameters(world, method, path, where="query")
    }
    query = data.draw(st.fixed_dictionaries({}, optional=optional))
    schema = body_schema(world, method, path)
    body = b"" if schema is None else json.dumps(data.draw(matching(schema, world.schemas, HINTS))).encode()
    answer = world.ask(method, target(path, place, query), body=body)
    check(world, method, path, answer)
    # Whether a change can be made depends on the plan; whether something may be looked at does not.
    assert method == "POST" or answer.status == 200, answer.body


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@fuzzed(40)
@given(data=st.data())
def test_invalid_requests_are_rejected_as_described(
    world: World, method: str, path: str, data: st.DataObject
) -> None:
    texts = st.text(st.characters(codec="utf-8"), max_size=30)
    place = {"topic": data.draw(texts.filter(lambda text: text.strip("/.")))} if "{topic}" in path else {}
    place = {name: value.replace("/", "~") for name, value in place.items()}
    known = [one["name"] for one in parameters(world, method, path, where="query")]
    names = st.sampled_from([*known, "unknown"])
    query = data.draw(st.dictionaries(names, texts, max_size=3))
    body = data.draw(st.binary(max_size=200) | anything.map(json.dumps).map(str.encode))
    before = world.plan()
    answer = world.ask(method, target(path, place, query), body=body)
    check(world, method, path, answer)
    schema = body_schema(world, method, path)
    if schema is not None and not is_described(body, schema, world):
        assert answer.status == 400
        assert world.plan() == before


def is_described(body: bytes, schema: dict[str, Any], world: World) -> bool:
    try:
        return fits(json.loads(body), schema, world.schemas)
    except ValueError:
        return False


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@fuzzed(25)
@given(
    token=st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40),
    as_cookie=st.booleans(),
)
def test_no_other_token_gives_access(
    world: World, method: str, path: str, token: str, as_cookie: bool
) -> None:
    if token.strip() == TOKEN and not as_cookie:
        return
    before = world.plan()
    headers = {"cookie": f"equipoise-token={quote(token)}"} if as_cookie else {}
    answer = world.ask(
        method,
        path.replace("{topic}", "calm"),
        body=b'{"hub": "b"}',
        token="" if as_cookie else token,
        headers=headers,
    )
    assert answer.status == 401
    check(world, method, path, answer)
    assert world.plan() == before


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "path", [*sorted({path for _, path in OPERATIONS} - {EVENTS}), "/api/nothing", "/api"]
)
def test_unknown_paths_are_rejected_in_json(world: World, method: str, path: str) -> None:
    if (method, path) in OPERATIONS:
        return
    answer = world.ask(method, path.replace("{topic}", "calm"))
    assert answer.status in (404, 405)
    assert answer.media == "application/json" and json.loads(answer.body)["error"]


def test_the_description_agrees_with_the_routes(world: World) -> None:
    assert world.described == describe()
    assert {(route.method, route.path) for route in ROUTES} == set(OPERATIONS)


@pytest.mark.parametrize("size_bytes", [64 * 1024, 64 * 1024 + 1, 1_000_000])
def test_a_body_beyond_the_limit_is_rejected(size_bytes: int) -> None:
    body = b'{"topic": "calm", "hubs": ["a"]}'
    # In a world of its own: what the others ask for may have drained the hub.
    with a_world() as world:
        answer = world.ask("POST", "/api/move", body=body + b" " * (size_bytes - len(body)))
    assert answer.status == (200 if size_bytes <= 64 * 1024 else 400)
