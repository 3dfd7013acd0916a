"""Links and clients over TLS: each hub has two addresses, and a client is redirected to the kind that it uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import equipoise
from equipoise import ClientSettings
from equipoise.access import Users, hash_secret, parse_users
from equipoise.hub import HubSettings, Tls
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.data.session import Session
from equipoise.hub.membership.process import RunningMember, member, read_login
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.store import MemoryStoreServer, MemoryTree
from support.polling import until

PATIENCE_S = 40.0


class Pki:
    """An authority, and a certificate of it for hubs on this machine."""

    def __init__(self, folder: Path, name: str = "127.0.0.1") -> None:
        authority = trustme.CA()
        issued = authority.issue_cert(name)
        self.ca, self.certificate, self.key = folder / "ca.pem", folder / "hub.pem", folder / "hub.key"
        authority.cert_pem.write_to_path(str(self.ca))
        issued.private_key_pem.write_to_path(str(self.key))
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))


@asynccontextmanager
async def two_hubs(
    pki: Pki, users: Users | None = None, password: Path | None = None, *, is_ready: bool = True
) -> AsyncIterator[dict[str, RunningMember]]:
    login: dict[str, Any] = {}
    if password is not None:
        login = {"cluster_user": "hubs", "cluster_password_file": str(password)}
    server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time), host="127.0.0.1", port=0)
    await server.start()
    members: dict[str, RunningMember] = {}
    async with AsyncExitStack() as stack:
        for name in ("h1", "h2"):
            settings = HubSettings(
                name=name,
                port=0,
                tls=Tls(port=0, certificate=str(pki.certificate), key=str(pki.key), client_ca=str(pki.ca)),
                cluster=ClusterSettings(link_tls_ca=str(pki.ca)),
                membership=MembershipSettings(store=f"eqs://127.0.0.1:{server.port}", **login),
            )
            members[name] = await stack.enter_async_context(member(settings, users or Users.open()))
            if is_ready:
                await members[name].wait_ready()
        yield members
    await server.stop()


def home_of(members: dict[str, RunningMember], topic: bytes) -> str | None:
    cluster = members["h1"].hub.cluster
    assert cluster is not None
    return cluster.router.home(topic)


def settings_of(pki: Pki) -> ClientSettings:
    return ClientSettings(tls_ca_file=str(pki.ca))


@pytest.mark.parametrize("is_tls", [True, False])
def test_a_client_is_redirected_to_the_kind_of_address_it_uses(tmp_path: Path, is_tls: bool) -> None:
    pki = Pki(tmp_path)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), two_hubs(pki) as members:
            topic = next(name for n in range(100) if home_of(members, name := b"t%d" % n) == "h2")
            hubs = {name: one.hub for name, one in members.items()}
            port = hubs["h1"].tls_port if is_tls else hubs["h1"].port
            scheme = "equipoises" if is_tls else "equipoise"
            settings = settings_of(pki) if is_tls else ClientSettings()
            async with (
                equipoise.connect(f"{scheme}://127.0.0.1:{port}", settings=settings) as bus,
                bus.subscribe(topic.decode()) as subscription,
            ):
                # Through the link first, then straight from the home: the client has gone there.
                while not hubs["h2"].core.index.topics[topic].members:
                    await bus.publish(topic.decode(), b"x")
                    await anext(subscription)
                session = next(iter(hubs["h2"].core.index.topics[topic].members))
                assert isinstance(session, Session)
                assert session.is_tls is is_tls

    asyncio.run(main())


def users_with(password: str) -> Users:
    secret = hash_secret(password.encode(), salt=b"0123456789abcdef")
    return parse_users(f'[users.hubs]\nsecret = "{secret}"\nlink = ["*"]\n')


def test_a_hub_logs_in_with_the_password_that_its_file_holds_now(tmp_path: Path) -> None:
    """1. Two hubs log in at each other. 2. The password changes. 3. Links are dialled again."""
    pki, password = Pki(tmp_path), tmp_path / "hubs.password"
    password.write_text("first\n")

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), two_hubs(pki, users_with("first"), password) as members:
            links = [member.hub.cluster.out for member in members.values() if member.hub.cluster is not None]
            await until(lambda: all(link.is_connected for out in links for link in out.values()))
            counts = {link: link.connections for out in links for link in out.values()}
            assert len(counts) == 2
            password.write_text("second\n")
            for member in members.values():
                member.hub.reload_login(read_login(member.hub.settings.membership))
                member.hub.reload_users(users_with("second"))
                for session in list(member.hub.core.sessions.values()):
                    member.hub.core.cut(session, "the test breaks all links")
            await until(lambda: all(link.connections > before for link, before in counts.items()))
            await until(lambda: all(link.is_connected for link in counts))

    asyncio.run(main())


def test_links_between_hubs_are_encrypted(tmp_path: Path) -> None:
    pki = Pki(tmp_path)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), two_hubs(pki) as members:
            sessions = members["h2"].hub.core.sessions
            await until(lambda: any(session.peer is not None for session in sessions.values()))
            assert all(session.is_tls for session in sessions.values() if session.peer is not None)

    asyncio.run(main())


def test_a_certificate_of_another_name_is_rejected_and_named(tmp_path: Path) -> None:
    pki = Pki(tmp_path, name="elsewhere.example")

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), two_hubs(pki, is_ready=False) as members:
            health = members["h1"].hub.core.health
            await until(lambda: "TLS with" in health.text)
            assert "certificate verify failed" in health.text.lower().replace("_", " ")

    asyncio.run(main())
