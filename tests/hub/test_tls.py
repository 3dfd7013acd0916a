"""TLS: encrypted connections, client certificates, and failed handshakes."""

from __future__ import annotations

import asyncio
import datetime
import gc
import socket
import ssl
from pathlib import Path

import pytest
import trustme

import equipoise
from equipoise import ClientSettings
from equipoise.access import Users, parse_users
from equipoise.errors import DisconnectedError, SettingsError
from equipoise.hub import Limits, Tls
from hub.live import LOOPS, Peer, assert_quiet, live_hub, run_on
from hub.world import Error, pipeline
from support.polling import until

DRONE = """
[users.drone]
certificates = ["drone-7"]
create = ["*"]
publish = ["*"]
subscribe = ["*"]
"""


class Pki:
    """An authority, the hub's certificate from it, and certificates for clients."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self._folder = folder
        issued = self.authority.issue_cert("hub.example")
        self.certificate, self.key = folder / "hub.pem", folder / "hub.key"
        issued.private_key_pem.write_to_path(str(self.key))
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.client_ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.client_ca))

    def settings(self, *, client_ca: bool = False, required: bool = False) -> Tls:
        return Tls(
            port=0,
            certificate=str(self.certificate),
            key=str(self.key),
            client_ca=str(self.client_ca) if client_ca or required else "",
            client_certificate_is_required=required,
        )

    def context(
        self, common_name: str | None = None, *, authority: trustme.CA | None = None
    ) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if common_name is not None:
            issued = (authority or self.authority).issue_cert(
                f"{common_name}.example", common_name=common_name
            )
            issued.configure_cert(context)
        return context


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_client_is_served_over_tls_as_without(loop_name: str, pki: Pki) -> None:
    async def main() -> None:
        async with (
            live_hub(tls=pki.settings()) as hub,
            Peer.connected(hub, context=pki.context(), hostname="hub.example") as secure,
            Peer.connected(hub) as plain,
        ):
            await secure.do("SUBSCRIBE", "t")
            plain.send_raw(pipeline(["PUBLISH", "t", str(i)] for i in range(100)))
            assert [(await secure.read())[2] for _ in range(100)] == [b"%d" % i for i in range(100)]

    run_on(loop_name, main)


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_certificate_logs_its_user_in(loop_name: str, pki: Pki) -> None:
    async def main() -> None:
        users = parse_users(DRONE)
        async with live_hub(users=users, tls=pki.settings(client_ca=True)) as hub:
            for context, expected in (
                (pki.context("drone-7"), 0),
                (pki.context("drone-8"), Error("NOAUTH Authentication required.")),
                (pki.context(), Error("NOAUTH Authentication required.")),
            ):
                async with Peer.connected(hub, context=context, hostname="hub.example") as peer:
                    assert await peer.do("PUBLISH", "t", "x") == expected

    run_on(loop_name, main)


def test_a_client_whose_certificate_is_removed_from_the_list_is_disconnected(pki: Pki) -> None:
    async def main() -> None:
        users = parse_users(DRONE)
        async with (
            live_hub(users=users, tls=pki.settings(client_ca=True)) as hub,
            Peer.connected(hub, context=pki.context("drone-7"), hostname="hub.example") as peer,
        ):
            assert await peer.do("SUBSCRIBE", "t") == [b"subscribe", b"t", 1]
            hub.reload_users(parse_users(DRONE.replace("drone-7", "drone-9")))
            await peer.closed()

    run_on("uvloop", main)


@pytest.mark.parametrize("loop_name", LOOPS)
def test_if_certificates_are_required_clients_without_one_are_rejected(
    loop_name: str, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        stranger = trustme.CA()
        async with live_hub(users=parse_users(DRONE), tls=pki.settings(required=True)) as hub:
            async with Peer.connected(hub, context=pki.context("drone-7"), hostname="hub.example") as drone:
                assert await drone.do("PUBLISH", "t", "x") == 0
            for context in (pki.context(), pki.context("drone-7", authority=stranger)):
                # With TLS 1.3 a client learns of its rejection only when it reads.
                with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
                    async with Peer.connected(hub, context=context, hostname="hub.example") as peer:
                        await peer.do("PING")
            await until(lambda: not hub.core.sessions)

    run_on(loop_name, main)
    assert_quiet(caplog)


@pytest.mark.parametrize("loop_name", LOOPS)
@pytest.mark.parametrize(
    "sent", [b"", b"PING\r\n", b"\x16\x03\x01", b"\x16\x03\x01\x00\x05hello", b"\0" * 500]
)
def test_a_client_without_a_handshake_is_disconnected_in_time(
    loop_name: str, sent: bytes, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with live_hub(Limits(unauthenticated_timeout_s=0.1), tls=pki.settings()) as hub:
            reader, writer = await asyncio.open_connection("127.0.0.1", hub.tls_port)
            writer.write(sent)
            async with asyncio.timeout(30):
                try:
                    while await reader.read(1_000):
                        pass
                except ConnectionError:
                    pass
            writer.transport.abort()
            async with Peer.connected(hub) as plain:
                assert await plain.do("PING") == b"PONG"

    run_on(loop_name, main)
    assert_quiet(caplog)


class Moments:
    """The authority's certificates for a name, with the wrong time or name."""

    def __init__(self, pki: Pki, folder: Path, *names: str, expired: bool = False) -> None:
        long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        issued = pki.authority.issue_cert(*names, not_after=long_ago if expired else None)
        self.certificate, self.key = folder / "odd.pem", folder / "odd.key"
        issued.private_key_pem.write_to_path(str(self.key))
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    def settings(self) -> Tls:
        return Tls(port=0, certificate=str(self.certificate), key=str(self.key))


@pytest.mark.parametrize("loop_name", LOOPS)
@pytest.mark.parametrize("case", ["wrong name", "expired", "stranger", "plain on TLS", "TLS on plain"])
def test_a_handshake_that_fails_is_explained_on_both_sides(
    case: str, loop_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pki = Pki(tmp_path)
    name = "elsewhere.example" if case == "wrong name" else "127.0.0.1"
    odd = Moments(pki, tmp_path, name, expired=case == "expired")
    trust = ClientSettings(tls_ca_file=str(pki.client_ca), first_connect_timeout_s=1.0)

    async def main() -> tuple[str, int]:
        async with live_hub(tls=odd.settings()) as hub:
            scheme = "equipoise" if case == "plain on TLS" else "equipoises"
            port = hub.port if case == "TLS on plain" else hub.tls_port
            settings = ClientSettings(first_connect_timeout_s=1.0) if case == "stranger" else trust
            if scheme == "equipoise":
                settings = ClientSettings(first_connect_timeout_s=1.0)
            with pytest.raises(DisconnectedError) as told:
                async with equipoise.connect(f"{scheme}://127.0.0.1:{port}", settings=settings) as bus:
                    await bus.publish("t", b"x")
            if case != "TLS on plain":
                await until(lambda: bool(gc.collect() >= 0 and hub.failed_handshakes.count))
            return str(told.value), hub.core.stats.protocol_errors

    found: list[tuple[str, int]] = []

    async def keep() -> None:
        found.append(await main())

    run_on(loop_name, keep)
    ((said, protocol_errors),) = found
    assert {
        "wrong name": "for another name",
        "expired": "does not hold now",
        "stranger": "not trusted",
        "plain on TLS": "use equipoises://",
        "TLS on plain": "equipoise:// for plain",
    }[case] in said
    if case == "TLS on plain":
        assert protocol_errors > 0
    else:
        # Python's loops hang up on a certificate that they do not accept, without an alert.
        assert ("plain text" if case == "plain on TLS" else "name, expiry or CA") in caplog.text
        assert caplog.text.count("TLS handshake failed") == 1, "told once, however often it is tried"


@pytest.mark.parametrize(("trusted", "word"), [(False, "does not trust the CA"), (True, "has expired")])
def test_the_alert_of_a_client_is_logged_by_the_hub(
    trusted: bool, word: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pki = Pki(tmp_path)
    odd = Moments(pki, tmp_path, "127.0.0.1", expired=trusted)

    def knock(port: int | None) -> None:
        context = pki.context() if trusted else ssl.create_default_context()
        with (
            socket.create_connection(("127.0.0.1", port or 0), timeout=30) as plain,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            context.wrap_socket(plain, server_hostname="127.0.0.1")

    async def main() -> None:
        async with live_hub(tls=odd.settings()) as hub:
            await asyncio.to_thread(knock, hub.tls_port)
            await until(lambda: hub.failed_handshakes.count > 0)

    run_on("uvloop", main)
    assert word in caplog.text


def test_old_protocol_versions_are_refused(pki: Pki) -> None:
    async def main() -> None:
        async with live_hub(tls=pki.settings()) as hub:
            context = pki.context()
            with pytest.warns(DeprecationWarning):
                context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionError)):
                async with Peer.connected(hub, context=context, hostname="hub.example") as peer:
                    await peer.do("PING")

    run_on("uvloop", main)


def test_slow_subscribers_over_tls_are_cut_too(pki: Pki) -> None:
    async def main() -> None:
        limits = Limits(output_bytes_max=256 * 1024, output_soft_bytes=256 * 1024)
        async with (
            live_hub(limits, tls=pki.settings()) as hub,
            Peer.connected(hub, context=pki.context(), hostname="hub.example") as slow,
            Peer.connected(hub) as publisher,
        ):
            await slow.do("SUBSCRIBE", "t")
            slow.stop_reading()
            async with asyncio.timeout(10):
                while not hub.core.backlogs.cuts:
                    await publisher.do("PUBLISH", "t", b"x" * 100_000)
            assert len(hub.core.sessions) == 1

    run_on("uvloop", main)


def test_open_users_and_tls_go_together(pki: Pki) -> None:
    async def main() -> None:
        async with (
            live_hub(users=Users.open(), tls=pki.settings(client_ca=True)) as hub,
            Peer.connected(hub, context=pki.context("unlisted"), hostname="hub.example") as peer,
        ):
            assert await peer.do("PUBLISH", "t", "x") == 0

    run_on("uvloop", main)


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_certificate_is_replaced_while_the_hub_runs(loop_name: str, tmp_path: Path) -> None:
    """1. The hub runs. 2. Its files get a certificate of another authority. 3. New connections see that one."""
    pki = Pki(tmp_path)
    settings = pki.settings()

    async def main() -> None:
        async with live_hub(tls=settings) as hub:
            old = pki.context()
            pki.key.write_text("no key")
            with pytest.raises(SettingsError, match="do not work"):
                hub.reload_certificate()
            renewed = Pki(tmp_path)
            hub.reload_certificate()
            assert hub.tls_port is not None
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", hub.tls_port, ssl=renewed.context(), server_hostname="hub.example"
            )
            writer.write(b"PING\r\n")
            assert await reader.readline() == b"+PONG\r\n"
            writer.close()
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection(
                    "127.0.0.1", hub.tls_port, ssl=old, server_hostname="hub.example"
                )

    run_on(loop_name, main)
