"""The bytes of each protocol."""

from __future__ import annotations

import hiredis
import pytest

from equipoise.profile.dialects import Nats, Resp2


def parse(data: bytes) -> list[object]:
    reader = hiredis.Reader()
    reader.feed(data)
    parsed = []
    while (reply := reader.gets()) is not False:
        parsed.append(reply)
    return parsed


def test_a_resp_batch_is_one_publish_per_topic_in_turn() -> None:
    data = Resp2().publish([b"a", b"bb"], b"payload", is_single=False)
    assert parse(data) == [[b"PUBLISH", b"a", b"payload"], [b"PUBLISH", b"bb", b"payload"]]


def test_a_resp_receipt_holds_the_number_of_receivers_for_each_publish() -> None:
    assert parse(Resp2().receipt(3, 100, is_single=False)) == [100, 100, 100]


def test_a_resp_delivery_is_a_message_push() -> None:
    assert parse(Resp2().deliver(b"topic", b"x" * 1000)) == [[b"message", b"topic", b"x" * 1000]]


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_resp_subscriber_waits_for_the_whole_answer(cut: int) -> None:
    answer = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
    assert Resp2().is_subscribed(answer, b"a")
    assert not Resp2().is_subscribed(answer[:-cut], b"a")
    assert not Resp2().is_subscribed(answer, b"b")


def test_a_nats_batch_ends_with_a_ping_that_acknowledges_it() -> None:
    nats = Nats()
    assert (
        nats.publish([b"a", b"b"], b"xyz", is_single=False) == b"PUB a 3\r\nxyz\r\nPUB b 3\r\nxyz\r\nPING\r\n"
    )
    assert nats.receipt(2, 10, is_single=False) == b"PONG\r\n"


def test_a_single_nats_publish_is_acknowledged_by_itself() -> None:
    nats = Nats()
    assert nats.publish([b"a"], b"xyz", is_single=True) == b"PUB a 3\r\nxyz\r\n"
    assert nats.receipt(1, 10, is_single=True) == b"+OK\r\n"
    assert b'"verbose":true' in nats.prepare_publisher(is_single=True)


def test_a_nats_subscriber_is_ready_once_its_ping_is_answered() -> None:
    info = b'INFO {"server_id":"X"} \r\n'
    assert not Nats().is_subscribed(info, b"a")
    assert Nats().is_subscribed(info + b"PONG\r\n", b"a")
    assert not Nats().is_subscribed(b"-ERR 'no'\r\nPONG\r\n", b"a")


def test_a_nats_delivery_names_subject_subscription_and_size() -> None:
    assert Nats().deliver(b"a", b"xyz") == b"MSG a 1 3\r\nxyz\r\n"
