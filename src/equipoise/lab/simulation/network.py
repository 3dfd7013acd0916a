"""Hold the hosts, the links between them and the connections over those links.

The network resolves addresses, opens connections, and applies every network fault: cut, heal, reset.
Links compute the delay of segments, and the topology determines the properties of links.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from equipoise.errors import MisuseError
from equipoise.lab.simulation.handshake import Handshake
from equipoise.lab.simulation.incarnation import HERE, IncarnationHost
from equipoise.lab.simulation.link import LinkSpec, SimulatedLink
from equipoise.lab.simulation.topology import Topology
from equipoise.lab.simulation.trace import TraceKind
from equipoise.lab.simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from equipoise.lab.simulation.host import Host
    from equipoise.lab.simulation.loop import SimulatedLoop

__all__ = ["Network"]

# Loopback latency of a common machine.
LOOPBACK = LinkSpec(latency_s=0.000_02)
# Linux closes a connection with unacknowledged data after tcp_retries2 = 15 retries, which take this long.
GIVE_UP_S = 924.6


class Network:
    """Owned by the simulation. The loop's socket calls use it."""

    def __init__(self, loop: SimulatedLoop, topology: Topology, faults: Counter[str]) -> None:
        self.loop = loop
        self.hosts: dict[str, Host] = {}
        self._by_address: dict[str, Host] = {}
        self._links: dict[tuple[str, str], SimulatedLink] = {}
        self._topology = topology
        self._faults = faults

    def add(self, host: Host) -> None:
        self.hosts[host.name] = host
        self._by_address[host.address] = host

    def link(self, source: IncarnationHost, target: IncarnationHost) -> SimulatedLink:
        """The link from one host to another, created on first use."""
        key = (source.name, target.name)
        link = self._links.get(key)
        if link is None:
            loop = self.loop
            link = SimulatedLink(
                source, target, timeline=loop.timeline, random=loop.network_random, faults=self._faults
            )
            same = source is target
            link.shape(LOOPBACK if same else self._topology.link(source.place, target.place))
            self._links[key] = link
        return link

    def resolve(self, name: str | None, *, is_passive: bool = False) -> str:
        """The address of a host name or address, as seen from the current host."""
        if name in (None, ""):
            return "0.0.0.0" if is_passive else "127.0.0.1"
        if name == "localhost":
            return "127.0.0.1"
        assert name is not None
        if name in self.hosts:
            return self.hosts[name].address
        with suppress(OSError):
            socket.inet_aton(name)
            return name
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def connect(self, factory: Callable[[], asyncio.BaseProtocol], address: tuple[str, int]) -> Handshake:
        """Start a connection from the current host."""
        caller = HERE.get(self.loop.outside)
        if address[0].startswith("127.") or address[0] == "0.0.0.0":
            target = caller.host
        elif address[0] in self._by_address:
            target = self._by_address[address[0]]
        else:
            raise OSError(errno.EHOSTUNREACH, f"No route to host {address}")
        handshake = Handshake(self, caller, target, address, factory)
        handshake.request()
        return handshake

    def join(self, near: SimulatedTransport, far: SimulatedTransport) -> None:
        """Join two ends into a connection."""
        near.peer, far.peer = far, near
        round_trip_s = near.link.latency_s + far.link.latency_s
        for end in (near, far):
            end.window = end.link.window_bytes(round_trip_s)
            end.link.senders[end] = None
            end.incarnation.transports[end] = None
            end.number = self.loop.trace.register_end(f"{_name(end.peer)}>{_name(end)}")

    def forget(self, end: SimulatedTransport) -> None:
        """One end has lost its connection. Once both have, remove the connection."""
        if end.peer.is_finished and end.peer.protocol is None:
            for gone in (end, end.peer):
                gone.link.senders.pop(gone, None)
                gone.incarnation.transports.pop(gone, None)

    # Faults.

    def cut(self, source: Host, target: Host) -> None:
        """Cut the link from one host to another; sent data waits."""
        link = self.link(source, target)
        if link.cut_at is not None:
            return
        now = self.loop.now
        link.cut_at = now
        link.refresh()
        for sender in link.senders:
            _peer(sender).is_cut_off = True
        self._faults["cut"] += 1
        self.loop.record(TraceKind.CUT, source.number, text=target.name)
        self.loop.timeline.add(now + GIVE_UP_S, partial(self._give_up, link, now))

    def heal(self, source: Host, target: Host) -> None:
        """Heal the link; waiting data arrives with the next retransmission."""
        link = self.link(source, target)
        if link.cut_at is None:
            return
        retry_at = self.loop.now + link.heal_delay_s(self.loop.now)
        link.cut_at = None
        link.refresh()
        for sender in list(link.senders):
            self._release(sender, retry_at)
        self._faults["heal"] += 1
        self.loop.record(TraceKind.HEAL, source.number, text=target.name)

    def reset(self, one: Host, other: Host) -> int:
        """Break every connection between two hosts in the middle of the data in flight."""
        ends = [end for end in self.link(one, other).senders if not end.is_finished]
        for end in ends:
            for side in (_peer(end), _peer(end).peer):
                total = sum(len(piece) for piece in side.arriving if type(piece) is bytes)
                side.reset_midway(int(self.loop.network_random.random() * (total + 1)))
        self._faults["reset"] += len(ends)
        return len(ends)

    def close(self) -> None:
        """Drop all links and hosts."""
        for link in self._links.values():
            link.senders.clear()
        self._links.clear()
        self.hosts.clear()
        self._by_address.clear()

    def _release(self, sender: object, at: float) -> None:
        """Resume one connection after a heal: waiting data is retransmitted at `at`."""
        end = _peer(sender)
        end.is_cut_off = False
        end.peer.send_again(at)
        # Acknowledgements of this end's data pass over the healed link.
        end.in_flight -= end.unacknowledged
        end.unacknowledged = 0
        if end.is_stalled:
            end.wake()

    def _give_up(self, link: SimulatedLink, cut_at: float) -> None:
        if link.cut_at != cut_at:
            return
        for sender in list(link.senders):
            end = _peer(sender).peer
            if end.peer.undelivered and not end.is_finished:
                end.finish(TimeoutError(errno.ETIMEDOUT, "Connection timed out"), farewell=False)


def _peer(sender: object) -> SimulatedTransport:
    if not isinstance(sender, SimulatedTransport):
        raise MisuseError(f"{sender!r} is not an end of a simulated connection")
    return sender.peer


def _name(end: SimulatedTransport) -> str:
    return f"{end.incarnation.host.name}:{end.get_extra_info('sockname')[1]}"
