"""The authority of `equipoise up --tls`: made once, renewed in time, trusted by clients that have its certificate."""

from __future__ import annotations

import asyncio
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from equipoise.errors import SettingsError
from equipoise.hub import Tls
from equipoise.local.authority import hub_certificate
from hub.live import live_hub

NAMES = ("127.0.0.1", "localhost", "::1")


def test_valid_certificates_are_kept_and_expiring_ones_renewed(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    first = hub_certificate(tmp_path / "tls", NAMES, now)
    made = [path.read_bytes() for path in first]
    assert [path.read_bytes() for path in hub_certificate(tmp_path / "tls", NAMES, now)] == made
    later = hub_certificate(tmp_path / "tls", NAMES, now + timedelta(days=340))
    renewed = [path.read_bytes() for path in later]
    assert renewed[0] == made[0], "clients go on trusting the authority"
    assert renewed[1] != made[1] and renewed[2] != made[2]
    other = hub_certificate(tmp_path / "tls", (*NAMES, "hub.example"), now + timedelta(days=340))
    assert other.certificate.read_bytes() != renewed[1]
    for name in ("ca.key", "hub.key"):
        assert stat.S_IMODE((tmp_path / "tls" / name).stat().st_mode) == 0o600


def test_invalid_files_are_errors(tmp_path: Path) -> None:
    hub_certificate(tmp_path, NAMES, datetime.now(UTC))
    (tmp_path / "ca.pem").write_text("nonsense")
    with pytest.raises(SettingsError, match="Remove the folder"):
        hub_certificate(tmp_path, NAMES, datetime.now(UTC))


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_client_that_trusts_the_authority_is_served(tmp_path: Path, name: str) -> None:
    files = hub_certificate(tmp_path, NAMES, datetime.now(UTC))

    async def main() -> None:
        async with live_hub(tls=Tls(port=0, certificate=str(files.certificate), key=str(files.key))) as hub:
            context = ssl.create_default_context(cafile=str(files.ca))
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
            assert hub.tls_port is not None
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", hub.tls_port, ssl=context, server_hostname=name
            )
            writer.write(b"PING\r\n")
            assert await reader.readline() == b"+PONG\r\n"
            writer.close()
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection(
                    "127.0.0.1", hub.tls_port, ssl=ssl.create_default_context(), server_hostname=name
                )

    asyncio.run(main())
