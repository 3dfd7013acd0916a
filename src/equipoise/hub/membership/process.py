"""Start a hub of a cluster from its settings: open the store, load rules, listen, join.

In this order, because a hub may listen only once it has access rules, and join only once it listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

from equipoise.access import Users
from equipoise.access.hub_logins import check_links
from equipoise.errors import SettingsError, StoreUnavailableError
from equipoise.hub.membership.acl_sync import first_rules
from equipoise.hub.membership.membership import Membership
from equipoise.hub.shell.server import Hub
from equipoise.ledger.quorum import Quorum
from equipoise.ledger_client.bookie_pool import BookieAccess
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.model.address import check_advertisable, split_address
from equipoise.processes import is_process_gone, process_identity
from equipoise.store.contract import Store, StoreSettings
from equipoise.store.records.hubs import HubsStore
from equipoise.store.records.users import UsersStore
from equipoise.store.tree import Tree
from equipoise.store.urls import open_store

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.dialer import Login
    from equipoise.hub.membership.settings import MembershipSettings
    from equipoise.hub.settings import HubSettings

__all__ = ["RunningMember", "give_logs", "leave", "member"]

_PASSWORD_BYTES_MAX = 4 * 1024
# How long a stopping hub waits until no message is in flight, and the interval of that check, in seconds.
LEAVE_S = 2.0
LEAVE_INTERVAL_S = 0.02
NO_BOOKIES = "ERR this cluster has no bookie for logs: start one with `equipoise bookie`"


class RunningMember:
    """A running hub of a cluster."""

    def __init__(self, hub: Hub, membership: Membership, work: asyncio.Task[None]) -> None:
        self.hub = hub
        self.membership = membership
        self._work = work

    async def wait_ready(self) -> None:
        """Return once the membership is ready. Raises its error if it fails before."""
        ready = asyncio.create_task(self.membership.ready.wait())
        try:
            await asyncio.wait([self._work, ready], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._work.done():
            self._work.result()

    async def wait_over(self) -> None:
        """Return, or raise, when the membership ends."""
        await asyncio.shield(self._work)


@asynccontextmanager
async def member(settings: HubSettings, seed: Users) -> AsyncIterator[RunningMember]:
    """Run a hub of a cluster for the duration of the block. `seed`: users to store if the store has none."""
    own = settings.membership
    check_reachable(settings)
    timeouts = StoreSettings(session_timeout_s=own.session_timeout_s, request_timeout_s=own.session_timeout_s)
    try:
        store = await open_store(own.store, timeouts)
    except StoreUnavailableError as problem:
        raise StoreUnavailableError(
            f"no store answers at {own.store}: start one with `equipoise store`, or check the address"
        ) from problem
    try:
        await check_seed(store, Tree(own.region), seed, settings.name)
        rules = await first_rules(store, Tree(own.region), seed)
        login = read_login(own)
        if login is None and not rules.users.is_open:
            raise SettingsError(
                "this region has users, and hubs log in on each other: give --cluster-user and "
                "--cluster-password-file of a user with link = [\"*\"] (`equipoise users add hubs --link '*'`)"
            )
        hub = Hub(settings, rules.users)
        await hub.start()
        membership = Membership(
            hub,
            store,
            access_version=rules.access_version,
            login=login,
            load=lambda: hub.core.metering.load_ratio,
            process=process_identity(),
            is_gone=is_process_gone,
        )
        access = None if login is None else BookieAccess(*login, settings.cluster.link_tls_ca)
        ledgers = BookieLedgers(store, Tree(own.region), SystemRandom(), site=own.site, access=access)
        await ledgers.start()
        give_logs(hub, store, ledgers)
        work = asyncio.create_task(membership.run())
        try:
            yield RunningMember(hub, membership, work)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await leave(hub)
            await ledgers.close()
            await store.close()
            await hub.stop()
    finally:
        await store.close()


def give_logs(hub: Hub, store: Store, ledgers: BookieLedgers) -> None:
    """Let the hub store logs on the bookies of its cluster, as soon as there is one."""
    is_known = False

    def missing() -> str:
        nonlocal is_known
        is_known = is_known or bool(ledgers.pool.known)
        return "" if is_known else NO_BOOKIES

    def quorum() -> Quorum:
        copies = min(3, sum(not facts.is_read_only for facts in ledgers.pool.known.values())) or 1
        return Quorum(copies, copies, min(2, copies))

    hub.use_logs(store, Tree(hub.settings.membership.region), ledgers, quorum, missing)


async def leave(hub: Hub) -> None:
    """Close the clients' connections, and leave the other hubs in an orderly way (`hub.cluster.leaving`).

    Call it before the hub is deleted from the store. If it takes longer than LEAVE_S, the others treat it as dead.
    """
    hub.end_clients()
    cluster = hub.cluster
    if cluster is None:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_S):
            cluster.leaving.begin()
            while not cluster.leaving.is_over:  # noqa: ASYNC110  it depends on every frame that comes
                await asyncio.sleep(LEAVE_INTERVAL_S)
            cluster.leaving.finish()
            while not cluster.leaving.is_flushed:  # noqa: ASYNC110
                await asyncio.sleep(LEAVE_INTERVAL_S)


async def check_seed(store: Store, tree: Tree, seed: Users, name: str) -> None:
    """Raise SettingsError if the hub `name` would store the first users and thereby cut links of hubs without login."""
    known = (await UsersStore(store, tree).load()).users
    if known.is_open and not seed.is_open:
        seen = await HubsStore(store, tree).load()
        others = {hub: seen[hub].facts.login for hub in seen.keys() - {name} if seen[hub].alive is not None}
        check_links(others, known, seed)


def check_reachable(settings: HubSettings) -> None:
    """Raise SettingsError unless other hubs can reach the hub at its address."""
    host, advertise = settings.host, settings.membership.advertise
    if advertise:
        host, port = split_address(advertise) or ("", 0)
        if not port:
            raise SettingsError(f"--advertise {advertise}: give HOST:PORT, such as hub-1.example:6399")
    check_advertisable(host, who="hub", option="--advertise HOST:PORT")


def read_login(settings: MembershipSettings) -> Login:
    """The user and password with which this hub logs in on other hubs; None without a login."""
    if not settings.cluster_user:
        return None
    if not settings.cluster_password_file:
        raise SettingsError("--cluster-user needs --cluster-password-file")
    path = Path(settings.cluster_password_file)
    try:
        with path.open("rb") as file:
            text = file.read(_PASSWORD_BYTES_MAX).decode()
    except OSError as problem:
        raise SettingsError(f"cannot read the password file {path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise SettingsError(f"the password file {path} is not UTF-8 text: {problem}") from problem
    return settings.cluster_user, text.rstrip("\r\n")
