"""The protocol of a remote store, and the server's reaction to invalid messages."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import (
    BadVersionError,
    EquipoiseError,
    MisuseError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ProtocolError,
    SessionLostError,
)
from equipoise.store import MemoryStoreServer, MemoryTree, Node, WatchKind
from equipoise.store.backends import memory_wire
from store.memory_world import run

MESSAGES: list[memory_wire.Request] = [
    memory_wire.Hello(0, 10.0),
    memory_wire.Create(1, "/a", b"x" * 300, True),
    memory_wire.Set(2, "/a", b"", None),
    memory_wire.Arm(3, "/a", WatchKind.CHILDREN),
    memory_wire.Ping(4),
    memory_wire.Bye(5),
]


@given(st.lists(st.integers(1, 400), max_size=12))
def test_any_split_of_the_same_bytes_gives_the_same_messages(sizes: list[int]) -> None:
    data = b"".join(map(memory_wire.encode, MESSAGES))
    frames, found = memory_wire.Frames(1000), []
    for size in [*sizes, len(data)]:
        found += [memory_wire.decode_request(body) for body in frames.feed(data[:size])]
        data = data[size:]
    assert found == MESSAGES


def test_replies_survive_encoding() -> None:
    replies: list[memory_wire.Reply] = [
        memory_wire.Welcome(7),
        memory_wire.Done(1, Node("/a", b"x", 1, 2, 3)),
        memory_wire.Done(2, names=("a", "b")),
        memory_wire.Changed("/a", WatchKind.DATA),
    ]
    for reply in replies:
        [body] = memory_wire.Frames(1000).feed(memory_wire.encode(reply))
        assert memory_wire.decode_reply(body) == reply


@pytest.mark.parametrize(
    "error",
    [
        NodeExistsError("/a"),
        NoNodeError("/a"),
        NotEmptyError("/a"),
        BadVersionError("/a"),
        MisuseError("no"),
        SessionLostError("over"),
    ],
)
def test_an_error_arrives_as_it_was_raised(error: EquipoiseError) -> None:
    arrived = memory_wire.error_of(memory_wire.failure(1, error))
    assert (type(arrived), str(arrived)) == (type(error), str(error))


def test_an_unknown_error_is_a_protocol_error() -> None:
    assert isinstance(memory_wire.error_of(memory_wire.Failed(1, "KeyError", "x")), ProtocolError)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x91\xa4Nope", b"\x92\xa4Ping\xa1x", b"\x90"])
def test_an_invalid_message_is_rejected(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        memory_wire.decode_request(body)
    with pytest.raises(ProtocolError):
        memory_wire.decode_reply(body)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",
        memory_wire.encode(memory_wire.Ping(1)),
        memory_wire.encode(memory_wire.Hello(0, 5.0)) * 2,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_server_disconnects_a_peer_with_another_protocol(data: bytes) -> None:
    async def scenario() -> None:
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time))
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(data)
        with pytest.raises(ConnectionError):
            await reader.read()
            # A reset may come as the end of the stream where nothing was under way.
            raise ConnectionResetError
        writer.close()
        assert not server.connections
        await server.stop()

    run(scenario())
