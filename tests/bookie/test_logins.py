"""A bookie with TLS serves users with the permission link, and no other client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
import trustme

from equipoise.access import parse_users
from equipoise.access.secret import ScryptCost, hash_secret
from equipoise.bookie.bookie import Bookie
from equipoise.bookie.logins import BookieSecurity
from equipoise.disk import DirectoryDisk
from equipoise.doctor.probes import ask_bookies
from equipoise.errors import LedgerError
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.registration import BookieFacts, Cookie
from equipoise.ledger.wire import encode_read
from equipoise.ledger_client.bookie_pool import BookieAccess, ReplicationSettings
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.model import Durability, TopicSpec
from equipoise.store import MemoryStoreServer, MemoryTree, Store, Tree, open_store
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.specs import SpecsStore
from equipoise.store.records.users import UsersStore

TIMEOUT_S = 60
CHEAP = ScryptCost(n=1024, r=1)
# A busy machine takes its time for a handshake.
PATIENT = ReplicationSettings(connect_timeout_s=30.0, answer_timeout_s=30.0, append_timeout_s=30.0)
# Where a refusal is expected: an append that gets no further ends soon.
BRIEF = ReplicationSettings(connect_timeout_s=30.0, answer_timeout_s=30.0, append_timeout_s=0.5)


class SecuredBookie:
    def __init__(self, store: Store, ca: str, port: int) -> None:
        self.store = store
        self.ca = ca
        self.port = port
        self._opened: list[BookieLedgers] = []

    async def ledgers(
        self, access: BookieAccess | None, settings: ReplicationSettings = BRIEF
    ) -> BookieLedgers:
        ledgers = BookieLedgers(self.store, Tree(), Random(1), settings=settings, access=access)
        await ledgers.start()
        self._opened.append(ledgers)
        return ledgers

    async def close(self) -> None:
        for ledgers in self._opened:
            await ledgers.close()


@asynccontextmanager
async def secured_bookie(folder: Path) -> AsyncIterator[SecuredBookie]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, ca = folder / "bookie.pem", folder / "ca.pem"
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    authority.cert_pem.write_to_path(str(ca))
    server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
    await server.start()
    store = await open_store(f"eqs://127.0.0.1:{server.port}")
    secret = hash_secret(b"right", salt=b"saltsalt", cost=CHEAP)
    text = f'[users.hubs]\nsecret = "{secret}"\nlink = ["*"]\n\n[users.game]\nsecret = "{secret}"\npublish = ["*"]\n'
    await UsersStore(store).replace(parse_users(text), access_version=0)
    security = BookieSecurity(str(certificate), "", BookieAccess("hubs", "right", str(ca)))
    facts = BookieFacts(name="b1", host="127.0.0.1", port=0, rack="r1")
    bookie = Bookie(facts, DirectoryDisk(folder / "b1"), store, Tree(), Random(2), security=security)
    await bookie.start(listen_host="127.0.0.1")
    running = asyncio.create_task(bookie.run())
    world = SecuredBookie(store, str(ca), bookie.facts.port)
    try:
        yield world
    finally:
        await world.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()
        await server.stop()


def run(folder: Path, test: Callable[[SecuredBookie], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), secured_bookie(folder) as bookie:
            await test(bookie)

    asyncio.run(main())


def test_a_user_that_may_link_writes_and_reads_over_tls(tmp_path: Path) -> None:
    async def test(bookie: SecuredBookie) -> None:
        ledgers = await bookie.ledgers(BookieAccess("hubs", "right", bookie.ca), PATIENT)
        ledger = await ledgers.create(b"t", 1, Quorum(1, 1, 1))
        assert await ledgers.read(ledger.ledger, 0, 0) == [b"1\nt"]
        found = (await BookiesStore(bookie.store).load())["b1"]
        assert found.is_secured

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("user", "password"), [("hubs", "wrong"), ("unknown", "right"), ("game", "right"), ("", "")]
)
def test_other_users_are_rejected(user: str, password: str, tmp_path: Path) -> None:
    async def test(bookie: SecuredBookie) -> None:
        ledgers = await bookie.ledgers(BookieAccess(user, password, bookie.ca))
        with pytest.raises(LedgerError):
            await ledgers.create(b"t", 1, Quorum(1, 1, 1))

    run(tmp_path, test)


def test_a_client_without_a_login_or_with_another_authority_gets_nothing(tmp_path: Path) -> None:
    async def test(bookie: SecuredBookie) -> None:
        with pytest.raises(LedgerError):
            await (await bookie.ledgers(None)).create(b"t", 1, Quorum(1, 1, 1))
        # The system's authorities do not know ours.
        with pytest.raises(LedgerError):
            await (await bookie.ledgers(BookieAccess("hubs", "right", ""))).create(b"t", 1, Quorum(1, 1, 1))

    run(tmp_path, test)


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_request_before_the_login_ends_the_connection(is_tls: bool, tmp_path: Path) -> None:
    async def test(bookie: SecuredBookie) -> None:
        context = ssl.create_default_context(cafile=bookie.ca) if is_tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", bookie.port, ssl=context)
        writer.write(encode_read(7, 0))
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()

    run(tmp_path, test)


def test_doctor_warns_of_a_bookie_that_any_client_can_read(tmp_path: Path) -> None:
    async def main() -> None:
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
        await server.start()
        url = f"eqs://127.0.0.1:{server.port}"
        store = await open_store(url)
        try:
            assert [finding async for finding in ask_bookies(url)] == []
            bookies = BookiesStore(store)
            await store.ensure(f"{Tree().ledgers}/available/readonly")
            await bookies.register(BookieFacts(name="b1", host="10.0.0.7", port=3181, is_secured=True))
            await bookies.register(BookieFacts(name="b2", host="127.0.0.1", port=3181))
            room, finding = [finding async for finding in ask_bookies(url)]
            assert (room.status, finding.status) == ("ok", "ok")
            await bookies.register(BookieFacts(name="b3", host="10.0.0.8", port=3181))
            _, finding = [finding async for finding in ask_bookies(url)]
            assert finding.status == "warning" and "b3 at 10.0.0.8:3181" in finding.fact
            assert "b1" not in finding.fact
            spec = TopicSpec(pattern=b"t", durability=Durability(4, 3, 2))
            await SpecsStore(store, Tree()).put(spec)
            room, _ = [finding async for finding in ask_bookies(url)]
            assert room.status == "failure" and "3 bookies are writable, a durable spec needs 4" in room.fact
            await bookies.register(BookieFacts(name="b4", host="h", port=1, free_bytes=1, total_bytes=100))
            room, _ = [finding async for finding in ask_bookies(url)]
            assert room.status == "warning" and "nearly full: b4" in room.fact
            await bookies.add_cookie(Cookie(bookie="b5", directory="d", instance="i"))
            room, _ = [finding async for finding in ask_bookies(url)]
            assert room.status == "warning" and "lost: " in room.fact and "b5" in room.fact
        finally:
            await store.close()
            await server.stop()

    asyncio.run(main())
