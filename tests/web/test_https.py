"""The dashboard over HTTPS: pages, token, events; a new certificate without a restart; a clear error for plain HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from equipoise.errors import SettingsError
from web.site_world import TOKEN, Site, play


class Files:
    """A certificate and its key, as the settings name them."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.certificate, self.key = folder / "pages.pem", folder / "pages.key"
        self.issue()

    def issue(self) -> None:
        issued = self.authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(self.key))
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))

    @property
    def names(self) -> tuple[str, str]:
        return str(self.certificate), str(self.key)

    def trusted(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def port_of(site: Site) -> int:
    return int(site.address.rpartition(":")[2])


async def connected(site: Site, context: ssl.SSLContext) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port_of(site), ssl=context)


def test_pages_token_and_events_are_served(files: Files) -> None:
    async def scenario(site: Site) -> None:
        assert site.address.startswith("https://127.0.0.1:")
        site.context = files.trusted()
        assert (await site.ask("/"))[0] in (200, 401)
        assert (await site.ask("/api/overview"))[0] == 401
        status, overview = await site.ask("/api/overview", token=TOKEN)
        assert status == 200 and overview["hubs"]
        reader, writer = await connected(site, files.trusted())
        head = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(head.encode())
        # Two of them: the stream goes on.
        for _ in range(2):
            await reader.readuntil(b"data: ")
        writer.close()

    play(scenario, token=TOKEN, certificate=files.names)


def test_another_certificate_is_used_without_a_restart(files: Files) -> None:
    """
    1. A page is open. 2. The files hold another certificate, and pages are told. 3. New connections get it, and the old
    one goes on. 4. Files that do not fit together are refused, and change nothing.
    """

    async def serial(site: Site) -> object:
        _, writer = await connected(site, files.trusted())
        found = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return found

    async def scenario(site: Site) -> None:
        reader, writer = await connected(site, files.trusted())
        first = await serial(site)
        files.issue()
        assert await serial(site) == first
        site.pages.reload_certificate()
        second = await serial(site)
        assert second != first
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200" in await reader.readline()
        writer.close()
        files.key.write_text("no key")
        with pytest.raises(SettingsError, match="do not work"):
            site.pages.reload_certificate()
        assert await serial(site) == second

    play(scenario, certificate=files.names)


def test_a_client_without_trust_or_with_plain_text_gets_an_error_which_is_logged(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(site: Site) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await connected(site, ssl.create_default_context())
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(site))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200" not in await reader.read()
        writer.close()
        async with asyncio.timeout(30):
            # A client that hangs up is noticed when its connection is let go of.
            while "plain text" not in caplog.text or "CA of tls.certificate" not in caplog.text:
                gc.collect()
                await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        play(scenario, certificate=files.names)


def test_a_connection_without_a_handshake_is_closed(files: Files) -> None:
    async def scenario(site: Site) -> None:
        with socket.create_connection(("127.0.0.1", port_of(site))) as silent:
            silent.setblocking(False)
            # Ends before the scenario's own time is over, and by itself.
            assert await asyncio.get_running_loop().sock_recv(silent, 1) == b""

    play(scenario, certificate=files.names)


def test_an_unusable_certificate_is_an_error_at_start(files: Files) -> None:
    async def scenario(site: Site) -> None:
        raise AssertionError("not reached")

    with pytest.raises(SettingsError, match="do not work"):
        play(scenario, certificate=(files.names[0], files.names[0]))
