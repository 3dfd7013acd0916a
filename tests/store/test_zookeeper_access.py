"""A ZooKeeper with authentication: digest credentials, restricted nodes, and mutual TLS."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from equipoise.errors import AddressError, SettingsError, StoreError, StoreUnavailableError
from equipoise.processes import free_port, spawn
from equipoise.store import StoreSettings, open_store
from equipoise.store.embedded.zookeeper_process import find_jars, find_java
from equipoise.store.zookeeper_url import parse_zookeeper
from support.zookeeper import require_zookeeper, shared_zookeeper

HASTY = StoreSettings(session_timeout_s=2.0, request_timeout_s=2.0)
PATIENT = StoreSettings(session_timeout_s=2.0, request_timeout_s=20.0)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("zk://host/root?ca=x", "ca is unknown"),
        ("zks://host/root?password=x", "password is unknown"),
        ("zk://host/root?auth", "bad query"),
        ("zk://host/a//b", "path"),
    ],
)
def test_an_address_with_other_options_is_refused(url: str, reason: str) -> None:
    with pytest.raises(AddressError, match=reason):
        parse_zookeeper(url)


def test_an_address_names_hosts_root_and_files() -> None:
    address = parse_zookeeper("zks://a,b:2182/eq?ca=/c.pem&certificate=/x.pem&key=/k.pem&auth=/a")
    assert address is not None
    assert address.chroot == "a:2181,b:2182/eq"
    assert (address.is_tls, address.ca, address.auth) == (True, "/c.pem", "/a")
    assert parse_zookeeper("memory:x") is None


@pytest.mark.parametrize("text", ["", "user", "user:", ":secret"])
def test_a_file_without_credentials_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "auth"
    file.write_text(text)
    address = parse_zookeeper(f"zk://host?auth={file}")
    assert address is not None
    with pytest.raises(SettingsError, match="user:password"):
        address.client_options()
    file.unlink()
    with pytest.raises(SettingsError, match="cannot read"):
        address.client_options()


@pytest.mark.needs_java
def test_nodes_made_with_credentials_are_closed_to_all_others(tmp_path: Path) -> None:
    require_zookeeper()
    server = shared_zookeeper()
    auth = tmp_path / "auth"
    auth.write_text("equipoise:secret\n")
    url = f"zk://{server.address}/guarded-{tmp_path.name}"

    async def scenario() -> None:
        own = await open_store(f"{url}?auth={auth}", PATIENT)
        await own.create("/users", b"who may do what")
        same = await open_store(f"{url}?auth={auth}", PATIENT)
        assert (await same.get("/users")).data == b"who may do what"
        await same.close()
        stranger = await open_store(url, PATIENT)
        with pytest.raises(StoreError, match=r"denies access.*auth=FILE"):
            await stranger.set("/users", b"everything to me", version=None)
        await stranger.close()
        assert (await own.get("/users")).data == b"who may do what"
        await own.close()

    asyncio.run(scenario())


def _pkcs8(pem: bytes) -> bytes:
    """The form of a private key that Java reads."""
    key = serialization.load_pem_private_key(pem, password=None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class TlsServer:
    """A ZooKeeper with TLS only that requires client certificates."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        server = authority.issue_cert("127.0.0.1")
        keystore, truststore = folder / "server.pem", folder / "trust.pem"
        keystore.write_bytes(_pkcs8(server.private_key_pem.bytes()) + server.cert_chain_pems[0].bytes())
        authority.cert_pem.write_to_path(str(truststore))
        client = authority.issue_cert("hub@example.org")
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        client.cert_chain_pems[0].write_to_path(str(self.certificate))
        client.private_key_pem.write_to_path(str(self.key))
        self.log = folder / "zookeeper.log"
        config = folder / "zoo.cfg"
        config.write_text(
            f"""tickTime=200
dataDir={folder / "data"}
secureClientPort={self.port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
admin.enableServer=false
ssl.keyStore.location={keystore}
ssl.keyStore.type=PEM
ssl.trustStore.location={truststore}
ssl.trustStore.type=PEM
ssl.clientAuth=need
"""
        )
        # TLS needs Netty, which lies beside ZooKeeper in PySpark's jars.
        jars = Path(find_jars()[0]).parent / "*"
        words = [str(find_java()), "-cp", str(jars), "-Xmx256m"]
        words += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(config)]
        self.process = spawn(words, self.log)

    def url(self, *files: str) -> str:
        return f"zks://127.0.0.1:{self.port}/eq?{'&'.join(files)}"


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[TlsServer]:
    require_zookeeper()
    made = TlsServer(tmp_path)
    yield made
    made.process.kill()
    made.process.wait(30)


# Kazoo leaves the socket of a handshake that failed to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.needs_java
def test_a_store_over_tls_knows_its_server_and_shows_its_certificate(tls_server: TlsServer) -> None:
    own = (f"certificate={tls_server.certificate}", f"key={tls_server.key}")

    async def scenario() -> None:
        store = None
        for _ in range(30):
            try:
                store = await open_store(tls_server.url(f"ca={tls_server.ca}", *own), PATIENT)
                break
            except StoreUnavailableError:
                continue
        assert store is not None, tls_server.log.read_text()[-2000:]
        await store.create("/a", b"x")
        assert (await store.get("/a")).data == b"x"
        await store.close()
        # Without a certificate, and in plain text, nothing is to be had.
        with pytest.raises(StoreUnavailableError):
            await open_store(tls_server.url(f"ca={tls_server.ca}"), HASTY)
        with pytest.raises(StoreUnavailableError):
            await open_store(f"zk://127.0.0.1:{tls_server.port}/eq", HASTY)

    asyncio.run(scenario())
    # Here, where its warnings are ignored.
    gc.collect()
