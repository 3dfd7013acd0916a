"""Users that are added, changed and removed while hubs run: links stay up, or the change is rejected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from cli.two_hubs import TIMEOUT_S, System
from equipoise.access import parse_users
from equipoise.errors import SettingsError
from equipoise.hub import HubSettings
from equipoise.hub.membership.process import member
from equipoise.hub.membership.settings import MembershipSettings

PASSWORD = "between hubs"
ANN = {"username": "ann", "password": "ann's own"}
TOPICS = [f"t{i}" for i in range(8)]


@pytest.fixture
def strangers() -> Iterator[System]:
    """Hubs that have no login."""
    with System() as made:
        yield made


@pytest.fixture
def friends(tmp_path: Path) -> Iterator[System]:
    """Hubs that have a login, for when there are users."""
    password = tmp_path / "hubs.password"
    password.write_text(PASSWORD + "\n")
    with System(login=("hubs", str(password))) as made:
        yield made


def add_hubs(system: System, *words: str, exit_code: int = 0) -> str:
    return add(system, "hubs", PASSWORD, "--link", "*", *words, exit_code=exit_code)


def add_ann(system: System, *words: str, exit_code: int = 0) -> str:
    grants = ("--publish", "*", "--subscribe", "*")
    return add(system, "ann", ANN["password"], *grants, *words, exit_code=exit_code)


def add(system: System, name: str, password: str, *words: str, exit_code: int = 0) -> str:
    return system.run("users", "add", name, "--password-stdin", *words, exit_code=exit_code, typed=password)


def reaches(system: System, **login: str) -> bool:
    """Whether what is published at one hub is heard at the other, on topics of both."""
    heard = system.client("h2", **login).pubsub()  # type: ignore[no-untyped-call]  # redis-py
    heard.subscribe(*TOPICS)
    publisher = system.client("h1", **login)
    missing, deadline = set(TOPICS), time.monotonic() + 5.0
    while missing and time.monotonic() < deadline:
        for topic in sorted(missing):
            publisher.publish(topic, "x")
        while (message := heard.get_message(timeout=0.1)) is not None:
            if message["type"] == "message":
                missing.discard(message["channel"].decode())
    heard.close()
    return not missing


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            if is_so():
                return
        except (redis.ConnectionError, redis.AuthenticationError):
            pass  # The rules are on their way to the hubs.
        assert time.monotonic() < deadline


def test_first_users_are_rejected_while_hubs_have_no_login(strangers: System) -> None:
    for refused in (add_ann, add_hubs):
        said = refused(strangers, exit_code=2)
        assert "the hubs h1, h2 could no longer log in on other hubs" in said
        assert "--cluster-user hubs" in said
    assert "every client has full access" in strangers.run("users", "ls", exit_code=2)
    eventually(lambda: reaches(strangers))


def test_a_hub_that_would_bring_the_first_users_does_not_start_while_others_have_no_login(
    strangers: System,
) -> None:
    own = MembershipSettings(store=strangers.url)
    users = parse_users('[users.default]\nnopass = true\npublish = ["*"]\n')

    async def start() -> None:
        async with member(HubSettings(name="h3", port=0, membership=own), users):
            pass

    with pytest.raises(SettingsError, match="the hubs h1, h2 could no longer log in"):
        asyncio.run(start())
    eventually(lambda: reaches(strangers))


def test_hubs_with_a_login_continue_when_the_first_users_are_added(friends: System) -> None:
    # No user exists yet, and the clients are accepted.
    eventually(lambda: reaches(friends))
    said = add_ann(friends, exit_code=2)
    assert "the hubs h1, h2 log in on other hubs as 'hubs'" in said
    assert "equipoise users add hubs --link '*'" in said
    add_hubs(friends)
    add_ann(friends)
    eventually(lambda: reaches(friends, **ANN))


def test_the_user_of_hubs_is_not_changed_without_disconnect_hubs(friends: System) -> None:
    add_hubs(friends)
    add_ann(friends)
    eventually(lambda: reaches(friends, **ANN))
    assert "keep it until" in friends.run("users", "rm", "hubs", exit_code=2)
    changed = friends.run("users", "passwd", "hubs", "--password-stdin", exit_code=2, typed="another")
    assert "keep its password until" in changed
    eventually(lambda: reaches(friends, **ANN))
    # A user that no hub is can go.
    friends.run("users", "rm", "ann")
    friends.run("users", "rm", "hubs", "--disconnect-hubs")
    assert friends.json("users", "ls") == []
