"""Open a connection to a hub, detect a silent hub, and compute the delay of the next attempt.

Dialling is TCP, TLS, then the handshake that logs in and names the client. A returned connection uses RESP3 and is
logged in; a failed one is closed. The random numbers of the back-off are an argument, so that a simulation can replay
them.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import suppress
from dataclasses import dataclass

from equipoise.client.settings import ClientSettings
from equipoise.client.url import BusUrl, Endpoint
from equipoise.client.wire.connection import Connection, ConnectionOwner
from equipoise.client.wire.error_replies import explain_greeting
from equipoise.client.wire.requests import NowaitLosses
from equipoise.errors import DisconnectedError, RefusedError, SettingsError, UncertainError
from equipoise.version import __version__

LIBRARY = b"equipoise-py"


@dataclass(frozen=True, slots=True)
class ClientDialer:
    """All that is needed to connect, except the owner of the connection."""

    url: BusUrl
    settings: ClientSettings
    tls: ssl.SSLContext | None

    async def dial(
        self, endpoint: Endpoint, link: bytes, owner: ConnectionOwner, losses: NowaitLosses
    ) -> Connection:
        """Raises DisconnectedError if no server answers, PeerError if the server refuses.

        `link` names all connections of one link, so that a hub knows which connection replaces an earlier one.
        """
        loop = asyncio.get_running_loop()
        connection = Connection(loop, owner, losses)
        connection.link, connection.hub, connection.dialled = link, str(endpoint).encode(), endpoint
        timeout_s = self.settings.connect_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await loop.create_connection(lambda: connection, endpoint.host, endpoint.port, ssl=self.tls)
                await self._shake_hands(connection, endpoint)
        except TimeoutError:
            connection.abort(DisconnectedError("gave up connecting"))
            raise DisconnectedError(f"{endpoint} did not answer within {timeout_s:g} s") from None
        except OSError as error:
            connection.abort(DisconnectedError("gave up connecting"))
            raise DisconnectedError(f"{endpoint}: {_explain(error)}") from error
        except BaseException:
            connection.abort(DisconnectedError("gave up connecting"))
            raise
        return connection

    async def _shake_hands(self, connection: Connection, endpoint: Endpoint) -> None:
        words = [b"HELLO", b"3"]
        if self.url.user is not None and self.url.secret is not None:
            words += [b"AUTH", self.url.user.encode(), self.url.secret.encode()]
        if self.settings.name:
            words += [b"SETNAME", self.settings.name.encode()]
        hello = connection.ask(*words)
        # Messages that a slow network still delivers over an abandoned connection must not arrive after this.
        linked = connection.ask(b"EQ.LINK", connection.link, *([b"ROUTES"] if self.settings.routing else []))
        # So that a topic above its rate limit does not delay replies for other topics. Older hubs do not know this.
        connection.tell(b"EQ.DEFER")
        if self.settings.group:
            connection.tell(b"EQ.CORRELATE", self.settings.group.encode())
        # Redis before 7.2 rejects this, which has no effect; it is for CLIENT LIST.
        connection.tell(b"CLIENT", b"SETINFO", b"LIB-NAME", LIBRARY)
        connection.tell(b"CLIENT", b"SETINFO", b"LIB-VER", __version__.encode())
        # Not awaited if the handshake itself fails.
        linked.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        try:
            await hello
            # The reply has the address of the hub. A plain Redis rejects it.
            with suppress(RefusedError):
                await linked
        except RefusedError as error:
            raise explain_greeting(error) from None
        except UncertainError:
            lost = connection.lost.result()
            is_silent = self.tls is None and not connection.was_answered
            hint = "; if that is a TLS port, use equipoises://" if is_silent else ""
            raise type(lost)(f"{endpoint}: {lost}{hint}") from None


def make_tls(url: BusUrl, settings: ClientSettings) -> ssl.SSLContext | None:
    """None for a URL without TLS. Raises SettingsError if a file cannot be used."""
    if not url.is_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca_file or None)
        if settings.tls_cert_file:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    except OSError as error:
        raise SettingsError(f"a TLS file cannot be used: {error}; check the tls_* settings") from error
    return context


def _explain(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason}); equipoises:// is for TLS ports, equipoise:// for plain ones"
    if isinstance(error, ConnectionRefusedError):
        return "no server listens there; start a hub with `equipoise hub`, or check the address"
    return error.strerror or str(error)


# OpenSSL's codes (x509_vfy.h).
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_NAMES = (62, 64)


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.rstrip(".")
    if error.verify_code in _OTHER_NAMES:
        return f"its certificate is for another name ({said}); use a name of the certificate as the address"
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        return f"its certificate does not hold now ({said}); replace it on the hub, or check the clocks"
    return f"its certificate is not trusted ({said}); pass its CA as tls_ca_file, or --tls-ca"


async def watch(connection: Connection, interval_s: float, unanswered_max: int) -> None:
    """Return when the connection is lost; ping it meanwhile and close it when it stays silent.

    A vanished host sends nothing, and TCP takes a quarter of an hour to notice. Any received bytes count as a reply: a
    busy peer is not silent.
    """
    unanswered = 0
    while not connection.lost.done():
        await asyncio.wait([connection.lost], timeout=interval_s)
        if connection.has_received:
            unanswered = 0
        if unanswered >= unanswered_max:
            connection.abort(DisconnectedError(f"{unanswered} pings unanswered, {interval_s:g} s apart"))
            return
        connection.has_received = False
        connection.tell(b"PING")
        unanswered += 1


class Backoff:
    """The delay before the next attempt to connect. Call `reset` after a connection that lasted.

    Delays double from the first to the longest. Each is drawn from the upper half of its range: enough spread that the
    clients of a restarted hub do not reconnect in step, and never too short to be useful.
    """

    __slots__ = ("_first_s", "_max_s", "_next_s", "_rng")

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s
        self._rng = rng

    def next_s(self) -> float:
        delay_s = self._next_s
        self._next_s = min(self._max_s, delay_s * 2)
        return self._rng.uniform(delay_s / 2, delay_s)

    def reset(self) -> None:
        self._next_s = self._first_s
