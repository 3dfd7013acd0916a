"""The receiving end of a link: its generation and the offset up to which its frames are executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frame import Frame
    from equipoise.hub.data.ports import LinkEnd, Shell, Wire
    from equipoise.hub.settings import HubSettings
    from equipoise.hub.telemetry.stats import Stats
    from equipoise.resp import RequestLimits

__all__ = ["VOID_OFFSET", "FrameExecutor", "FrameReceiver", "InLink", "LinkHost", "LinkId", "LinkWire"]

# Beyond what any sender has written: a sender that has to go on there begins the next generation. The first release
# does so, too.
VOID_OFFSET = (1 << 63) - 1


class LinkId(NamedTuple):
    """One generation of a link, as the sender names it."""

    hub: str
    incarnation: int
    generation: int


class InLink:
    """The receiving end: which generation of the link this is, and how many bytes of it have been executed."""

    __slots__ = ("connections", "cut", "id", "is_void", "latest", "offset")

    def __init__(self, link: LinkId) -> None:
        self.id = link
        self.offset = 0
        # An error has stopped it: nothing more of this generation is executed.
        self.is_void = False
        # Connections that it has had; what ends the latest of them, for a reason.
        self.connections = 0
        self.cut: Callable[[str], object] = lambda reason: None
        # The receiving end of that.
        self.latest: LinkEnd | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the hub is executing a chunk, so that it is not known how far it has got."""
        return self.latest is not None and self.latest.is_busy

    @property
    def resume_at(self) -> int:
        """Where the sender has to go on."""
        return VOID_OFFSET if self.is_void else self.offset


class FrameExecutor(Protocol):
    def execute(self, peer: str, frame: Frame) -> None:
        """Do what a frame of a live peer says. Raises ProtocolError if no hub can mean that."""


class FrameReceiver(Protocol):
    """The cluster."""

    @property
    def frames(self) -> FrameExecutor: ...
    @property
    def incoming(self) -> dict[str, InLink]:
        """By hub, the present generation of its link to this one."""


class LinkHost(Protocol):
    """What a connection of a link needs of the hub."""

    @property
    def link_limits(self) -> RequestLimits: ...
    @property
    def settings(self) -> HubSettings: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def stats(self) -> Stats: ...
    def now(self) -> float: ...


class LinkWire(Protocol):
    """The session that has become a link."""

    last_at: float
    is_closing: bool
    write: Callable[[bytes], object]
    wire: Wire
