"""The bounded queue of a subscription: order, bounds, and an account of every message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from equipoise.client.events import Event, Gap, GapReason, Message
from equipoise.client.inbox import DROPS_MAX, Batch, Inbox
from equipoise.stream.position import Position

FULL = GapReason.QUEUE_FULL


def drain(inbox: Inbox) -> list[Event]:
    events = []
    while (event := inbox.take()) is not None:
        events.append(event)
    return events


def batch(topic: str, n: int, *payloads: bytes, pattern: str | None = None) -> Batch:
    return Batch(topic, pattern, 1, n, list(payloads))


def test_a_batch_yields_messages_with_their_positions() -> None:
    inbox = Inbox(10, 1000)
    inbox.put(batch("a", 4, b"x", b"y", pattern="*"))
    assert drain(inbox) == [
        Message("a", b"x", Position(1, 4), "*"),
        Message("a", b"y", Position(1, 5), "*"),
    ]
    assert (inbox.messages, inbox.bytes) == (0, 0)


def test_messages_of_a_server_without_positions_have_none() -> None:
    inbox = Inbox(10, 1000)
    inbox.put(Batch("a", None, 0, 0, [b"x"]))
    assert drain(inbox) == [Message("a", b"x")]


def test_the_oldest_messages_are_dropped_and_replaced_by_a_gap() -> None:
    inbox = Inbox(3, 1000)
    inbox.put(batch("a", 1, b"1", b"2"))
    inbox.put(batch("a", 3, b"3", b"4", b"5"))
    assert drain(inbox) == [
        Gap("a", 2, FULL),
        Message("a", b"3", Position(1, 3)),
        Message("a", b"4", Position(1, 4)),
        Message("a", b"5", Position(1, 5)),
    ]


def test_a_partly_taken_batch_loses_only_the_messages_not_taken() -> None:
    inbox = Inbox(3, 1000)
    inbox.put(batch("a", 1, b"1", b"2", b"3"))
    first = inbox.take()
    inbox.put(batch("a", 4, b"4", b"5"))
    assert isinstance(first, Message) and first.payload == b"1"
    assert drain(inbox)[0] == Gap("a", 1, FULL)


def test_bytes_are_bounded_too_and_one_message_over_the_bound_is_dropped() -> None:
    inbox = Inbox(100, 10)
    inbox.put(batch("a", 1, b"12345", b"67890"))
    inbox.put(batch("a", 3, b"x"))
    inbox.put(batch("a", 4, b"y" * 11))
    assert drain(inbox) == [Gap("a", 4, FULL)]


def test_each_topic_has_a_gap_of_its_own() -> None:
    inbox = Inbox(1, 1000)
    for topic in ("a", "b", "a", "c"):
        inbox.put(batch(topic, 1, b"x"))
    assert drain(inbox) == [Gap("a", 2, FULL), Gap("b", 1, FULL), Message("c", b"x", Position(1, 1))]


def test_a_dropped_gap_still_counts() -> None:
    inbox = Inbox(2, 1000)
    inbox.put_gap(Gap("a", 5, GapReason.RECONNECTED))
    inbox.put_gap(Gap("a", None, GapReason.RECONNECTED))
    inbox.put(batch("a", 1, b"x", b"y"))
    assert drain(inbox)[0] == Gap("a", None, GapReason.RECONNECTED)


def test_a_consumer_that_never_takes_costs_bounded_memory() -> None:
    inbox = Inbox(10, 1000)
    for i in range(DROPS_MAX * 3):
        inbox.put_gap(Gap(None, None, GapReason.RECONNECTED, "*"))
        inbox.put(batch(f"t{i}", 1, b"x", pattern="*"))
    events = drain(inbox)
    assert len(events) <= DROPS_MAX + 2 + 10
    assert sum(e.missed or 0 for e in events if isinstance(e, Gap)) == DROPS_MAX * 3 - 5
    assert any(e.topic is None and e.reason is FULL for e in events if isinstance(e, Gap))


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("take"), st.just(""), st.just([0])),
    ),
    max_size=60,
)


@given(operations, st.integers(1, 8), st.integers(1, 30))
def test_every_message_is_received_or_counted_in_order(
    operations: list[tuple[str, str, list[int]]], messages_max: int, bytes_max: int
) -> None:
    inbox = Inbox(messages_max, bytes_max)
    put = {"a": 0, "b": 0}
    accounted = {"a": 0, "b": 0}

    def account(event: Event | None) -> None:
        if isinstance(event, Gap):
            assert event.topic is not None and event.missed is not None
            accounted[event.topic] += event.missed
        elif event is not None:
            accounted[event.topic] += 1
            assert event.position == Position(1, accounted[event.topic]), "exactly where it should stand"

    for operation, topic, sizes in operations:
        if operation == "put":
            inbox.put(batch(topic, put[topic] + 1, *(b"x" * size for size in sizes)))
            put[topic] += len(sizes)
        else:
            account(inbox.take())
        assert inbox.messages <= messages_max and inbox.bytes <= bytes_max
    for event in drain(inbox):
        account(event)
    assert accounted == put
