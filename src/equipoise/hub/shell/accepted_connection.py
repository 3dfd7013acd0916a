"""One accepted connection: connects a transport or a wire to its session."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from equipoise.hub.data.shares import MeteredInput
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["AcceptedConnection", "tune"]

log = logging.getLogger("equipoise.hub")


class AcceptedConnection(asyncio.Protocol):
    """Connects a transport to its session. Input does not pass through this object."""

    __slots__ = ("_address", "_core", "data_received", "session")

    def __init__(self, core: HubCore, *, is_on_wire: bool = False) -> None:
        """`is_on_wire`: the transport is a compiled wire, which has a reference to the session."""
        self._core = core
        self.session: Session = core.open_session()
        self._address: str | None = None
        if not is_on_wire:
            # An attribute instead of a method saves a call per chunk; transports look it up by name.
            metered = MeteredInput(core.turns.shares, core.shell.work_s, self.session)
            self.data_received = metered  # type: ignore[method-assign]  # meant, see above

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # streams only
        core = self._core
        peername, session = transport.get_extra_info("peername"), self.session
        address = _host_of(peername)
        refusal = core.admission.refusal(address)
        if refusal is not None:
            core.stats.connections_refused += 1
            session.is_closing = True
            transport.write(error(refusal))
            transport.close()
            return
        self._address = address
        is_served = core.admission.admit(address, session.proceed)
        session.address = _format_address(peername)
        # One string, shared by all connections to the same address.
        session.local_address = sys.intern(_format_address(transport.get_extra_info("sockname")))
        session.is_tls = transport.get_extra_info("ssl_object") is not None
        self.tune(transport)
        core.join(session, transport, _common_names(transport), is_served=is_served)

    def tune(self, transport: asyncio.Transport) -> None:
        tune(transport.get_extra_info("socket"), self._core.limits.keepalive_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._core.lost(self.session)
        if self._address is not None:
            self._core.release(self._address, self.session.proceed)
            self._address = None

    def eof_received(self) -> bool:
        """The client has closed its side: stop serving it, because it may not read any more.

        Its pending output is sent, as far as it reads that within LINGER_S.
        """
        self._core.leave(self.session)
        return False

    def pause_writing(self) -> None:
        self._core.backlogs.pause(self.session)

    def resume_writing(self) -> None:
        self._core.backlogs.resume(self.session)


def _common_names(transport: asyncio.Transport) -> Sequence[str]:
    certificate = transport.get_extra_info("peercert")
    if certificate is None:
        return ()
    subject = certificate.get("subject", ())
    return [value for group in subject for key, value in group if key == "commonName"]


def tune(sock: socket.socket | None, keepalive_s: int) -> None:
    """Set TCP keepalive and the timeout for unacknowledged data, to detect dead peers."""
    if sock is None:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keepalive_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, keepalive_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2 * keepalive_s * 1_000)
    except OSError as problem:
        log.debug("keepalive not set: %s", problem)


def _host_of(peername: Any) -> str:
    return sys.intern(str(peername[0])) if isinstance(peername, tuple) and peername else ""


def _format_address(name: Any) -> str:
    if not isinstance(name, tuple) or len(name) < 2:
        return ""
    host = f"[{name[0]}]" if ":" in str(name[0]) else name[0]
    return f"{host}:{name[1]}"
