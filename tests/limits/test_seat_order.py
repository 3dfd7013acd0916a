"""The order of publishers that was found from arrivals, and where a client stands in it."""

from __future__ import annotations

import msgspec

from equipoise.limits.seat_order import PUBLISHERS_MAX, SeatOrder, pseudonym

KEY = b"k" * 32


def test_a_client_finds_its_rank_by_the_key_of_the_recording() -> None:
    clients = [b"%016d" % number for number in range(50)]
    order = SeatOrder.of(3, KEY, (pseudonym(client, KEY) for client in clients))
    ranks = msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=SeatOrder).ranks()
    assert ranks.number == 3
    assert [ranks.of(client) for client in clients] == list(range(50))
    assert ranks.of(b"another") is None
    other_key = SeatOrder.of(3, b"x" * 32, (pseudonym(client, KEY) for client in clients)).ranks()
    assert {other_key.of(client) for client in clients} == {None}


def test_an_order_is_bounded_and_a_damaged_one_is_read_as_far_as_it_goes() -> None:
    order = SeatOrder.of(1, KEY, range(PUBLISHERS_MAX + 5))
    assert len(order.publishers) == 8 * PUBLISHERS_MAX
    assert SeatOrder(1, KEY, order.publishers[:17]).ranks().of(b"x") is None
