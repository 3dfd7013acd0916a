"""The servers that dialogues are held with: one kind of each per world.

`open`: no users, every client has full access. `secured`: a password for `default`, and alice, who may publish
and subscribe to `game.*` alone. `logs`: open, and the hub keeps logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.access import ScryptCost, hash_secret
from support.processes import ServerProcess, hub, redis_server

_ALICE = "alice on >wonderland resetchannels &game.* +@all"
_REDIS_OPTIONS: dict[str, list[str]] = {
    "open": [],
    "logs": [],
    "secured": ["--requirepass", "secret", "--user", *_ALICE.split()],
}
_CHEAP = ScryptCost(n=1024, r=1, p=1)
WORLDS = tuple(_REDIS_OPTIONS)


@contextmanager
def redis_in(world: str) -> Iterator[ServerProcess]:
    with redis_server(*_REDIS_OPTIONS[world]) as server:
        yield server


@contextmanager
def hub_in(world: str, folder: Path) -> Iterator[ServerProcess]:
    options: list[str] = []
    if world == "logs":
        options = ["--data", str(folder / "data")]
    if world == "secured":
        users, settings = folder / "users.toml", folder / "hub.toml"
        users.write_text(_users())
        settings.write_text(f'users = "{users}"\n')
        options = ["--config", str(settings)]
    with hub(*options) as server:
        yield server


def _users() -> str:
    everything = '["*", "$*", ""]'
    return f"""
[users.default]
secret = "{hash_secret(b"secret", salt=b"default!", cost=_CHEAP)}"
create = {everything}
publish = {everything}
subscribe = {everything}
operate = {everything}

[users.alice]
secret = "{hash_secret(b"wonderland", salt=b"alice...", cost=_CHEAP)}"
create = ["game.*"]
publish = ["game.*"]
subscribe = ["game.*"]
"""
