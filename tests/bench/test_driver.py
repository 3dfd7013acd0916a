"""The driver against peers that behave and peers that do not."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from equipoise.errors import PeerError
from equipoise.lab.bench import driver, paced
from equipoise.lab.bench.cases import FanoutCase, PacedCase
from equipoise.lab.bench.driver import measure, payload_of, rehearse
from equipoise.profile.audience import LoadSubscribers
from equipoise.profile.dialects import Resp2
from equipoise.profile.servers import ServerUnderTest

SERVER = ServerUnderTest("fake", Resp2(), os.getpid(), 0)
CASE = FanoutCase(fanout=3, payload_bytes=100, batch=5, topics=1, messages=40)
TOPIC = b"bench.fanout.00000"
PUBLISH = Resp2().publish([TOPIC], payload_of(100), is_single=False)
DELIVERY = Resp2().deliver(TOPIC, payload_of(100))

# Given the number of a publish, counted from zero, and of a subscriber: the bytes to deliver; None cuts.
Behaviour = Callable[[int, int], bytes | None]


def faithful(publish: int, subscriber: int) -> bytes | None:
    return DELIVERY


@contextmanager
def audience_of(behaviour: Behaviour) -> Iterator[LoadSubscribers]:
    """An audience on socket pairs, with a thread that answers and delivers at the other ends."""
    pairs = [socket.socketpair() for _ in range(CASE.fanout + 1)]
    far = [pair[1] for pair in pairs]
    thread = threading.Thread(target=serve, args=(far[0], far[1:], behaviour))
    thread.start()
    for near, _ in pairs:
        near.setblocking(False)
    try:
        yield LoadSubscribers(pairs[0][0], [pair[0] for pair in pairs[1:]], [TOPIC])
    finally:
        pairs[0][0].close()
        thread.join(10)
        for pair in pairs:
            pair[0].close()
            pair[1].close()


def serve(publisher: socket.socket, subscribers: list[socket.socket], behaviour: Behaviour) -> None:
    publishes = received = 0
    while chunk := publisher.recv(65536):
        received += len(chunk)
        while (publishes + 1) * len(PUBLISH) <= received:
            for number, subscriber in enumerate(subscribers):
                delivery = behaviour(publishes, number)
                if delivery is None:
                    subscriber.shutdown(socket.SHUT_RDWR)
                    return
                subscriber.sendall(delivery)
            publisher.sendall(b":%d\r\n" % len(subscribers))
            publishes += 1


@pytest.mark.parametrize("batch", [1, 5])
def test_a_faithful_server_is_measured(batch: int) -> None:
    case = FanoutCase(CASE.fanout, 100, batch, 1, CASE.messages)
    with audience_of(faithful) as audience:
        rehearse(case, SERVER.dialect, audience)
        for _ in range(2):
            sample = measure(SERVER, case, audience)
            assert sample.deliveries_per_s > 0
            assert sample.cpu_us_per_delivery > 0


def test_bytes_that_differ_from_what_was_published_fail_the_rehearsal() -> None:
    with (
        audience_of(
            lambda publish, number: DELIVERY.replace(b"0", b"1", 1) if number == 2 else DELIVERY
        ) as audience,
        pytest.raises(PeerError, match="differ"),
    ):
        rehearse(CASE, SERVER.dialect, audience)


def test_a_server_that_cuts_a_subscriber_has_failed() -> None:
    with (
        audience_of(lambda publish, number: None if publish == 20 else DELIVERY) as audience,
        pytest.raises(PeerError, match=r"cut|lost"),
    ):
        measure(SERVER, CASE, audience)


def test_a_server_that_drops_a_message_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "STALL_S_MAX", 0.2)
    with (
        audience_of(lambda publish, number: b"" if (publish, number) == (7, 1) else DELIVERY) as audience,
        pytest.raises(PeerError, match="stalled"),
    ):
        measure(SERVER, CASE, audience)


def test_a_message_delivered_to_the_wrong_subscriber_has_failed() -> None:
    def misdirected(publish: int, number: int) -> bytes:
        if publish != 7 or number == 2:
            return DELIVERY
        return DELIVERY * 2 if number == 1 else b""

    with audience_of(misdirected) as audience, pytest.raises(PeerError, match="instead of"):
        measure(SERVER, CASE, audience)


def test_a_server_that_adds_bytes_has_failed() -> None:
    def chatty(publish: int, number: int) -> bytes:
        return DELIVERY + b"+HELLO\r\n" if publish == CASE.messages - 1 else DELIVERY

    with audience_of(chatty) as audience, pytest.raises(PeerError, match=r"instead of|were not published"):
        measure(SERVER, CASE, audience)


def test_publishing_stops_at_the_window_when_nothing_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "STALL_S_MAX", 0.2)
    publishes: set[int] = set()

    def withholding(publish: int, number: int) -> bytes:
        publishes.add(publish)
        return b""

    with audience_of(withholding) as audience, pytest.raises(PeerError, match="stalled"):
        measure(SERVER, CASE, audience, window=2)
    assert publishes == set(range(2 * CASE.batch))


def test_latency_is_taken_for_every_delivery_of_a_paced_load() -> None:
    case = PacedCase(fanout=CASE.fanout, payload_bytes=100, rate_per_s=2000, messages=100)
    with audience_of(faithful) as audience:
        sample = paced.measure_paced(SERVER, case, audience)
    assert 0 < sample.p50_us <= sample.p99_us
    assert 0 <= sample.left_out < 1


def test_a_paced_server_that_drops_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced, "STALL_S_MAX", 0.2)
    case = PacedCase(fanout=CASE.fanout, payload_bytes=100, rate_per_s=2000, messages=50)
    with (
        audience_of(lambda publish, number: b"" if publish == 3 else DELIVERY) as audience,
        pytest.raises(PeerError, match="missing"),
    ):
        paced.measure_paced(SERVER, case, audience)


def test_what_arrived_while_the_driver_was_off_the_cpu_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = PacedCase(fanout=CASE.fanout, payload_bytes=100, rate_per_s=2000, messages=50)
    monkeypatch.setattr(paced, "STEP_NS_MAX", -1)
    with audience_of(faithful) as audience, pytest.raises(PeerError, match="too busy"):
        paced.measure_paced(SERVER, case, audience)
