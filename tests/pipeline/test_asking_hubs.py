"""Requests for records over real sockets: in pieces, with timeouts, and to faulty hubs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from equipoise.errors import DisconnectedError, RefusedError
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source import fetch
from equipoise.pipeline.source.fetch import Heads, fetched
from equipoise.pipeline.source.hub_connection import Door, HubConnection, Piece
from equipoise.pipeline.source.offsets import Range
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.source.unpack import unpacked
from pipeline.fake_hub import FakeHub
from pipeline.records import START_US, topic_record


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub("h1") as found:
        found.add(*(topic_record(b"topic-%d" % at, START_US) for at in range(25)))
        yield found


@pytest.fixture(autouse=True)
def _fresh_connections() -> Iterator[None]:
    yield
    for connection in fetch._connections.values():
        connection.close()
    fetch._connections.clear()


def door(hub: FakeHub, *, timeout_s: float = 5.0, secret: str = "") -> Door:
    return Door("127.0.0.1", hub.port, secret=secret, timeout_s=timeout_s)


def read(
    hub: FakeHub, start: int, end: int, *, incarnation: int = 1, timeout_s: float = 5.0, secret: str = ""
) -> tuple[list[int], dict[str, int]]:
    """The numbers of the received records, and the rejections."""
    span = Range(hub=hub.name, incarnation=incarnation, start=start, end=end, unanswered=0)
    rows = [
        row
        for batch in fetched(
            span,
            door(hub, timeout_s=timeout_s, secret=secret),
            piece_bytes_max=1 << 20,
            timeout_s=timeout_s,
        )
        for row in batch.to_pylist()
    ]
    records, rejected = unpacked(rows, now_us=START_US, plausible=Plausible())
    valid = [
        number
        for batch in records
        for number, reason in zip(
            batch.column("sequence").to_pylist(), batch.column("rejected").to_pylist(), strict=True
        )
        if reason is None
    ]
    return valid, {reason: count for (_, reason), count in rejected.items()}


def test_a_range_is_complete_in_as_many_pieces_as_the_hub_sends(hub: FakeHub) -> None:
    hub.piece_records = 4
    assert read(hub, 3, 22) == (list(range(3, 22)), {})
    assert read(hub, 0, 25) == (list(range(25)), {})
    assert read(hub, 7, 7) == ([], {})


def test_records_dropped_from_the_ring_are_counted_as_lost(hub: FakeHub) -> None:
    hub.oldest = 10
    assert read(hub, 5, 20) == (list(range(10, 20)), {Rejection.LOST: 5})
    assert read(hub, 2, 8) == ([], {Rejection.LOST: 6})


def test_records_of_a_hub_before_its_restart_are_lost(hub: FakeHub) -> None:
    hub.restart()
    hub.add(topic_record(b"new", START_US))
    assert read(hub, 0, 25, incarnation=1) == ([], {Rejection.LOST: 25})
    assert read(hub, 0, 1, incarnation=2) == ([0], {})


def test_a_silent_hub_costs_its_records_and_a_bounded_time(hub: FakeHub) -> None:
    hub.answers.clear()
    began_at = time.monotonic()
    assert read(hub, 0, 25, timeout_s=0.3) == ([], {Rejection.LOST: 25})
    assert time.monotonic() - began_at < 30.0


def test_a_dead_hub_is_abandoned_long_before_a_slow_one(hub: FakeHub) -> None:
    hub.close()
    began_at = time.monotonic()
    assert read(hub, 0, 25, timeout_s=600.0) == ([], {Rejection.LOST: 25})
    assert time.monotonic() - began_at < 60.0


def test_an_unreachable_hub_costs_its_records(hub: FakeHub) -> None:
    span = Range(hub="h2", incarnation=1, start=0, end=4, unanswered=2)
    [unanswered, lost] = list(fetched(span, None, piece_bytes_max=1 << 20, timeout_s=1.0))
    assert unanswered.to_pylist()[0]["rejected"] == Rejection.UNANSWERED
    assert unanswered.to_pylist()[0]["records"] == 2
    assert lost.to_pylist()[0]["rejected"] == Rejection.LOST
    assert lost.to_pylist()[0]["records"] == 4


def test_bytes_that_are_not_arrow_are_counted_as_malformed(hub: FakeHub) -> None:
    hub.garbage = b"\x00" * 64
    assert read(hub, 0, 25) == ([], {Rejection.MALFORMED: 25})
    hub.garbage = b""
    assert read(hub, 0, 25) == ([], {Rejection.MALFORMED: 25})


def test_records_of_another_hub_or_incarnation_are_rejected(hub: FakeHub) -> None:
    hub.records[3]["hub"] = "h9"
    hub.records[4]["incarnation"] = 7
    valid, rejected = read(hub, 0, 10)
    assert valid == [0, 1, 2, 5, 6, 7, 8, 9]
    assert rejected == {Rejection.MISATTRIBUTED: 2}


def test_records_beyond_the_range_are_read_later(hub: FakeHub) -> None:
    hub.piece_records = 1_000
    assert read(hub, 0, 5) == (list(range(5)), {})
    assert read(hub, 5, 25) == (list(range(5, 25)), {})


def test_a_hub_that_wants_a_login_gets_it_once(hub: FakeHub) -> None:
    hub.secret = "open sesame"
    assert read(hub, 0, 5, secret="open sesame") == (list(range(5)), {})
    assert read(hub, 0, 5, secret="wrong", timeout_s=1.0) == ([], {Rejection.LOST: 5})
    connection = HubConnection(door(hub, secret="wrong"))
    with pytest.raises(RefusedError, match="WRONGPASS"):
        connection.ask(0, 0, 0)


def test_a_broken_connection_is_restored(hub: FakeHub) -> None:
    connection = HubConnection(door(hub))
    assert connection.ask(0, 0, 0).end == 25
    assert connection._socket is not None
    connection._socket.shutdown(2)
    with pytest.raises(DisconnectedError):
        connection.ask(0, 0, 0)
    assert connection.ask(0, 0, 0).end == 25
    connection.close()


def test_heads_of_all_hubs_are_known_though_one_is_silent(hub: FakeHub) -> None:
    with FakeHub("h2") as silent:
        silent.answers.clear()
        heads = Heads(timeout_s=2.0)
        doors = {"h1": door(hub, timeout_s=100.0), "h2": door(silent, timeout_s=100.0)}
        assert heads.ask(doors) == {"h1": Piece(1, 0, 0, b"", 25), "h2": None}
        # The second time it is skipped, however long the others may take.
        heads._timeout_s = 100.0
        began_at = time.monotonic()
        assert heads.ask(doors)["h1"] == Piece(1, 0, 0, b"", 25)
        assert time.monotonic() - began_at < 50.0
        heads._timeout_s = 2.0
        silent.answers.set()
        deadline = time.monotonic() + 30
        while heads.ask(doors)["h2"] is None:
            assert time.monotonic() < deadline, "it answers again, and is still passed over"
        heads.close()


def test_a_hub_with_a_new_address_is_found(hub: FakeHub) -> None:
    with FakeHub("h1") as elsewhere:
        heads = Heads(timeout_s=5.0)
        assert heads.ask({"h1": door(hub)})["h1"] == Piece(1, 0, 0, b"", 25)
        assert heads.ask({"h1": door(elsewhere)})["h1"] == Piece(1, 0, 0, b"", 0)
        assert heads.ask({}) == {}
        heads.close()


def test_a_secret_is_not_shown_when_a_task_fails(hub: FakeHub) -> None:
    assert "sesame" not in repr(door(hub, secret="open sesame"))
