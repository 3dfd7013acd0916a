"""Incomplete requests: a deadline for each, and a limit for all of them."""

from __future__ import annotations

import pytest

from equipoise.hub.settings import Limits
from hub.world import FakeClient, World, request

MIB = 1024 * 1024


def unfinished(size: int) -> bytes:
    return b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$%d\r\n" % MIB + b"x" * size


def is_gone(client: FakeClient) -> bool:
    return not client.is_connected()


def test_a_request_that_does_not_end_ends_its_connection() -> None:
    world = World(limits=Limits(request_s=30))
    client = world.client()
    client.send_raw(unfinished(1_000))
    world.advance(29)
    assert client.is_connected()
    world.advance(2.5)
    assert is_gone(client)
    assert world.core.unfinished.bytes == 0


def test_single_bytes_do_not_extend_the_deadline() -> None:
    world = World(limits=Limits(request_s=30))
    client = world.client()
    client.send_raw(unfinished(1_000))
    for _ in range(32):
        world.advance(1)
        client.send_raw(b"x")
    assert is_gone(client)


@pytest.mark.parametrize("cut_at", range(1, 40, 3))
def test_a_stream_of_requests_that_never_stops_in_between_has_no_deadline(cut_at: int) -> None:
    """The network splits requests where it likes: something is unfinished all the while, never the same."""
    world = World(limits=Limits(request_s=5))
    client = world.client()
    whole = request("PUBLISH", "topic", "message")
    client.send_raw(whole[:cut_at])
    for _ in range(60):
        world.advance(0.5)
        client.send_raw(whole[cut_at:] + whole[:cut_at])
        assert client.read() == [0]
    assert client.is_connected()
    client.send_raw(whole[cut_at:])
    assert world.core.unfinished.bytes == 0
    assert world.shell.timers_pending <= 2


@pytest.mark.parametrize("count", [2, 3_000])
def test_a_flood_that_is_read_by_turns_has_no_deadline_either(count: int) -> None:
    world = World(limits=Limits(request_s=5))
    client = world.client()
    lines = b"PING\r\n" * count + b"PI"
    client.send_raw(lines)
    for _ in range(20):
        world.advance(1)
        client.send_raw(b"NG\r\n" + lines)
    world.advance(1)
    assert client.is_connected()


def test_all_incomplete_requests_together_are_limited_and_the_largest_address_is_cut() -> None:
    """
    1. One client of another address is in the middle of a message.
    2. One address sends the beginnings of sixty messages of a megabyte and completes none of them.
    3. Its own connections are cut until the rest fits; the other client is served.
    """
    world = World(memory_bytes=200 * MIB, limits=Limits(input_total_share=0.05))
    honest = world.client()
    honest.session.address = "192.0.2.9:4000"
    whole = request("PUBLISH", "t", b"y" * (MIB - 10))
    honest.send_raw(whole[: MIB // 2])
    greedy = []
    for i in range(60):
        greedy.append(world.client())
        greedy[-1].session.address = f"192.0.2.7:{5_000 + i}"
        greedy[-1].send_raw(unfinished(MIB - 10))
        assert world.core.unfinished.bytes <= 10 * MIB
    assert sum(client.is_connected() for client in greedy) == 9
    honest.send_raw(whole[MIB // 2 :])
    assert honest.read() == [0]
