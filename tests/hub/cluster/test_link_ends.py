"""The dialling side of a link: what an error of the peer does before and after the handshake."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from equipoise.hub.cluster.link.dialer import LinkConnection
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.data.turns import UngatheredTurns

GREETING = b"hello"


class RecordingTransport(asyncio.Transport):
    """Stores what is written, and whether it was aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def abort(self) -> None:
        self.is_aborted = True


class Dialled:
    """A connection to a peer whose replies the test writes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.errors: list[str] = []
        self.link = OutLink("h1", 1, 1 << 20, lambda link: None)
        self.connection = LinkConnection(
            self.link,
            loop,
            lambda announced: None,
            lambda link: None,
            self.errors.append,
            gathered=UngatheredTurns().gathered,
        )
        self.wire = RecordingTransport()
        self.connection.connection_made(self.wire)
        self.refusal = loop.create_task(self.connection.greet(b"", GREETING))
        loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_an_error_after_the_handshake_ends_the_link_and_is_reported_at_once(
    loop: asyncio.AbstractEventLoop,
) -> None:
    dialled = Dialled(loop)
    dialled.connection.data_received(b"+EQ\r\n:0\r\n")
    assert loop.run_until_complete(dialled.refusal) is None
    assert not dialled.errors
    dialled.connection.data_received(b"-DEAD incarnation 7 of h2")
    assert not dialled.errors, "the line is not complete"
    dialled.connection.data_received(b" is declared dead\r\n")
    assert dialled.errors == ["DEAD incarnation 7 of h2 is declared dead"]
    assert dialled.wire.is_aborted


def test_an_error_instead_of_the_offset_rejects_the_handshake(loop: asyncio.AbstractEventLoop) -> None:
    dialled = Dialled(loop)
    dialled.connection.data_received(b"+EQ\r\n-UNKNOWN h2: try again\r\n")
    assert loop.run_until_complete(dialled.refusal) == "UNKNOWN h2: try again"
    assert not dialled.errors
    assert dialled.wire.is_aborted
