"""Where a client finds its hub, and how patient it is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from equipoise.client import ClientSettings

__all__ = ["HubEndpoint", "hurried"]


@dataclass(frozen=True, slots=True)
class HubEndpoint:
    """What a driven client needs beside its description. `rng` is its own: no other client draws from it."""

    host: str
    port: int
    settings: ClientSettings
    rng: random.Random
    # Between two attempts at what was refused: to connect, for a plain client, and to subscribe.
    retry_s: float = 0.2
    # Other hosts, at the same port, that a smart client tries when the first does not answer.
    others: tuple[str, ...] = ()

    def url(self, user: str) -> str:
        login = f"{user}:{user}@" if user else ""
        hosts = ",".join(f"{host}:{self.port}" for host in (self.host, *self.others))
        return f"equipoise://{login}{hosts}"


@cache
def hurried(**changes: int | float) -> ClientSettings:
    """Settings for a world of a few seconds: a lost hub is noticed in one, given up on in two."""
    values: dict[str, int | float] = {
        "connect_timeout_s": 1.0,
        "first_connect_timeout_s": 60.0,
        "request_timeout_s": 2.0,
        "reconnect_first_s": 0.05,
        "reconnect_max_s": 0.5,
        "ping_interval_s": 0.7,
        **changes,
    }
    return ClientSettings(**values)  # type: ignore[arg-type]  # fields by name, some of them int
