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

__all__ = [
    "VOID_OFFSET",
    "FrameExecutor",
    "FrameReceiver",
    "InLink",
    "LinkHost",
    "LinkId",
    "LinkWire",
    "PlainFrames",
]

# An offset that no sender has reached: a sender that has to resume there begins the next generation, in all releases.
VOID_OFFSET = (1 << 63) - 1


class LinkId(NamedTuple):
    """One generation of a link, as named by the sender."""

    hub: str
    incarnation: int
    generation: int


class InLink:
    """The receiving end: the generation of the link, and the number of its bytes that have been executed."""

    __slots__ = ("connections", "end", "id", "is_void", "latest", "offset")

    def __init__(self, link: LinkId) -> None:
        self.id = link
        self.offset = 0
        # Whether an error has stopped it: no more frames of this generation are executed.
        self.is_void = False
        # Number of connections so far; and the function that ends the latest one with an error reply.
        self.connections = 0
        self.end: Callable[[str], object] = lambda text: None
        # The receiving end of the latest connection.
        self.latest: LinkEnd | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the hub is executing a chunk, so that the executed offset is not known."""
        return self.latest is not None and self.latest.is_busy

    @property
    def resume_at(self) -> int:
        """The offset at which the sender has to resume."""
        return VOID_OFFSET if self.is_void else self.offset


class FrameExecutor(Protocol):
    def execute(self, peer: str, frame: Frame) -> None:
        """Execute a frame of a live peer. Raises ProtocolError if it is invalid."""


class PlainFrames(Protocol):
    """The compiled part: see hub/cluster/relays.py."""

    def execute(
        self, peer: str, link: InLink, data: bytes, start: int, words_max: int, size_max: int, /
    ) -> int:
        """Execute plain frames from `start` on, up to the first one that is not; return how many bytes they had."""


class FrameReceiver(Protocol):
    """The cluster."""

    @property
    def frames(self) -> FrameExecutor: ...
    @property
    def incoming(self) -> dict[str, InLink]:
        """By hub, the current generation of its link to this hub."""

    @property
    def relays(self) -> PlainFrames | None:
        """The compiled part, where it has been built."""


class LinkHost(Protocol):
    """The interface of the hub to a connection of a link."""

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
