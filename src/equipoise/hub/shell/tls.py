"""TLS contexts of a hub, and diagnostics of failed handshakes.

An event loop closes a connection whose handshake fails without notifying its server. So the SSL objects of the context
report failures, logged at most once a minute per reason: otherwise a client that sends plain text to the TLS port, or
does not trust the hub's certificate, would leave no trace.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from equipoise.errors import SettingsError
from equipoise.hub.settings import Tls

__all__ = ["FailedHandshakes", "tls_context"]

log = logging.getLogger("equipoise.hub")

# Least interval between two log lines about one reason, in seconds.
_QUIET_S = 60.0
_LEFT = "LEFT"
_REASONS = {
    _LEFT: "a client disconnected during the handshake; it may reject the name, expiry or CA of tls.certificate",
    "HTTP_REQUEST": "a client sent plain text (HTTP) to the TLS port",
    "WRONG_VERSION_NUMBER": "a client sent plain text to the TLS port",
    "RECORD_LAYER_FAILURE": "a client sent plain text to the TLS port",
    "UNKNOWN_PROTOCOL": "a client sent plain text to the TLS port",
    "TLSV1_ALERT_UNKNOWN_CA": "a client does not trust the CA of tls.certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "a client rejects tls.certificate, for example its name",
    "SSLV3_ALERT_BAD_CERTIFICATE": "a client rejects tls.certificate, for example its name",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "tls.certificate has expired: replace the file and send SIGHUP",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "a client has no certificate, and one is required",
    "CERTIFICATE_VERIFY_FAILED": "a client's certificate is not from tls.client_ca, or has expired",
    "UNSUPPORTED_PROTOCOL": "a client speaks an older TLS than 1.2",
}


class FailedHandshakes:
    """Owned by one Hub. Counts failed handshakes, and logs each reason at most once per _QUIET_S."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.count = 0
        # By reason, the time of its last log line, and the number of failures since.
        self._logged: dict[str, tuple[float, int]] = {}

    def note(self, reason: str) -> None:
        self.count += 1
        now = self._now()
        logged_at, since = self._logged.get(reason, (-_QUIET_S, 0))
        if now - logged_at < _QUIET_S:
            self._logged[reason] = (logged_at, since + 1)
            return
        more = f" (and {since} more since the last report)" if since else ""
        log.warning("TLS handshake failed: %s%s", _REASONS.get(reason, reason or "no reason given"), more)
        self._logged[reason] = (now, 0)


def tls_context(tls: Tls, failed: FailedHandshakes | None = None) -> ssl.SSLContext:
    """The TLS context of the settings. Raises SettingsError that names the file at fault. `failed`: counts failures."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as problem:
        raise SettingsError(
            f"tls.certificate {tls.certificate} and tls.key {tls.key} do not work: {problem}"
        ) from problem
    if tls.client_ca:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ssl.SSLError) as problem:
            raise SettingsError(f"tls.client_ca {tls.client_ca} does not work: {problem}") from problem
        context.verify_mode = ssl.CERT_REQUIRED if tls.client_certificate_is_required else ssl.CERT_OPTIONAL
    if failed is not None:
        context.sslobject_class = _telling(failed)
    return context


def _telling(failed: FailedHandshakes) -> type[ssl.SSLObject]:
    class TellingHandshake(ssl.SSLObject):
        # Whether the handshake has begun and neither succeeded nor failed.
        _is_open = False

        def do_handshake(self) -> None:
            self._is_open = True
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as problem:
                self._is_open = False
                failed.note(problem.reason or "")
                raise
            self._is_open = False

        def __del__(self) -> None:
            # Many clients that reject a certificate just disconnect; the loop then releases this object.
            if self._is_open:
                failed.note(_LEFT)

    return TellingHandshake
