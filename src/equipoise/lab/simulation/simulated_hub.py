"""Run the real hub on a simulated host, through crashes, restarts and changes of its rules."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache

from equipoise.access import Action, User, Users, hash_secret, verify_secret
from equipoise.access.secret import Cost
from equipoise.hub import Hub, HubSettings, Limits
from equipoise.hub.access import login
from equipoise.lab.scenarios import Rules, Scenario
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.patching import replaced
from equipoise.lab.simulation.process import HostProcess
from equipoise.lab.workload import History
from equipoise.model import Glob

__all__ = ["PORT", "HubHost", "quick_secrets", "settings_of"]

PORT = 6399
# The cheapest that is accepted: worlds are many, and what is tried here is not how hard a secret is to guess.
QUICK_COST = Cost(n=1024, r=1, p=1)
# A hub that has users wants an executor to check secrets on; the simulated loop calls inline and never uses it.
IDLE_EXECUTOR = ThreadPoolExecutor(1)


class HubHost:
    """A host and the hub on it. `hub` is the present life's, None while there is none."""

    def __init__(self, host: Host, scenario: Scenario, history: History) -> None:
        self.host = host
        self.settings = settings_of(_frozen(scenario))
        self.hub: Hub | None = None
        self._history = history
        self._rules = scenario.access.rules if scenario.access is not None else None

    def start(self) -> None:
        """Boot the host if it is down, and start a hub on it."""
        if not self.host.is_up:
            self.host.restart()
        self.host.spawn(self._serve(), name="hub")

    def crash(self, *, silent: bool) -> None:
        self.hub = None
        self.host.crash(silent=silent)

    def change_rules(self, rules: Rules) -> None:
        """Put other rules in force: now, or as soon as the hub runs again."""
        self._rules = rules
        if self.host.is_up:
            self.host.spawn(self._reload(), name="reload")

    async def _serve(self) -> None:
        host = self.host
        hub = Hub(
            self.settings,
            None if self._rules is None else users_of(self._rules),
            wall_clock=host.clock.time,
            rng=host.random,
            executor=IDLE_EXECUTOR,
            process=HostProcess(host),
        )
        await hub.start()
        self.hub = hub
        self._note_rules()

    async def _reload(self) -> None:
        # A paused hub gets here when it thaws, which is when it reads its file.
        if self.hub is not None and self._rules is not None:
            self.hub.reload_users(users_of(self._rules))
            self._note_rules()

    def _note_rules(self) -> None:
        if self._rules is not None:
            self._history.rules.append((asyncio.get_running_loop().time(), self._rules))


def quick_secrets() -> AbstractContextManager[None]:
    """Check each secret once per process: scrypt is slow by design, and its answer never changes."""
    return replaced(login, "verify_secret", _remembered)


_remembered = cache(verify_secret)


def _frozen(scenario: Scenario) -> tuple[tuple[str, int | float], ...]:
    return tuple(scenario.hub_limits.items())


@cache
def settings_of(limits: tuple[tuple[str, int | float], ...]) -> HubSettings:
    """Settings are made once per process and set of limits: making them takes longer than a small run may."""
    return HubSettings(
        name="hub",
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        limits=Limits(**dict(limits)),  # type: ignore[arg-type]  # fields by name, some of them int
    )


@cache
def users_of(rules: Rules) -> Users:
    """Users whose password is their name. A publisher may create the topics it publishes to."""
    return Users(
        User(
            name=grants.user,
            secret=hash_secret(grants.user.encode(), salt=b"saltsalt", cost=QUICK_COST),
            grants={
                Action.CREATE: _globs(grants.publish + grants.subscribe),
                Action.PUBLISH: _globs(grants.publish),
                Action.SUBSCRIBE: _globs(grants.subscribe),
            },
        )
        for grants in rules
    )


def _globs(patterns: tuple[str, ...]) -> tuple[Glob, ...]:
    return tuple(Glob(pattern.encode()) for pattern in patterns)
