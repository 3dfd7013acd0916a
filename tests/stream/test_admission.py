"""Admission by itself: events in, waiting messages and acknowledgements out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from equipoise.stream.admission import Admission
from equipoise.stream.parts import Dependency
from equipoise.stream.submission import Ack, Budget, NextHop, Path, Submission, WaitReason

HERE = NextHop(is_here=True)
AT_H1 = NextHop(False, ("h1", 1), True, 7)
FROM_H2: Path = (("h2", 1),)


def open_to(after: Sequence[Dependency]) -> bool:
    return False


def behind(after: Sequence[Dependency]) -> bool:
    return True


def admission(bytes_max: int = 1 << 20) -> Admission:
    return Admission(Budget(bytes_max), b"topic")


def messages(*payloads: bytes, path: Path = (), version: int = 0) -> Submission:
    return Submission(path, version, payloads)


@pytest.mark.parametrize(
    ("route", "item", "reason"),
    [
        pytest.param(HERE, messages(b"x"), None, id="numbered-here"),
        pytest.param(AT_H1, messages(b"x"), None, id="sent-on"),
        pytest.param(NextHop(False), messages(b"x"), WaitReason.HOME, id="no-home"),
        pytest.param(NextHop(False, ("h1", 1), False), messages(b"x"), WaitReason.LINK, id="no-link"),
        pytest.param(AT_H1, messages(b"x", version=8), WaitReason.PLAN, id="later-plan"),
        pytest.param(AT_H1, messages(b"x", version=7), None, id="same-plan"),
    ],
)
def test_the_route_is_the_first_stage(route: NextHop, item: Submission, reason: WaitReason | None) -> None:
    assert admission().waiting_for(item, route, open_to) is reason


def test_a_message_that_depends_on_another_stream_waits_only_where_it_is_numbered() -> None:
    item = Submission((), 0, (b"x",), (Dependency(b"h9", 1, 1),))
    one = admission()
    assert one.waiting_for(item, HERE, behind) is WaitReason.DEPENDENCY
    assert one.waiting_for(item, HERE, open_to) is None
    assert one.waiting_for(item, AT_H1, behind) is None


def test_messages_of_a_path_wait_for_those_that_took_another_route() -> None:
    one = admission()
    one.sent(("h1", 1), (), 2)
    other_way = NextHop(False, ("h3", 2))
    assert one.waiting_for(messages(b"x"), other_way, open_to) is WaitReason.ACKS
    assert one.waiting_for(messages(b"x"), HERE, open_to) is WaitReason.ACKS
    assert one.waiting_for(messages(b"x"), AT_H1, open_to) is None, "the same way keeps its order"
    assert one.waiting_for(messages(b"x", path=FROM_H2), other_way, open_to) is None, "another path"
    assert one.acked("h1", (), 2, (5, 9)) == [Ack((), 2, 5, 9)]
    assert one.waiting_for(messages(b"x"), other_way, open_to) is None


def test_a_gate_is_checked_last_and_also_holds_an_open_stream() -> None:
    """What a rate envelope or a quorum will be."""
    one = admission()
    tokens = 0

    def gate(item: Submission, route: NextHop) -> WaitReason | None:
        return WaitReason.TOKENS if item.messages > tokens else None

    was_empty = one.is_empty
    one.gates = (gate,)
    assert (was_empty, one.is_empty) == (True, False)
    assert one.waiting_for(messages(b"x"), NextHop(False), open_to) is WaitReason.HOME
    assert one.waiting_for(messages(b"x"), HERE, open_to) is WaitReason.TOKENS
    tokens = 1
    assert one.waiting_for(messages(b"x"), HERE, open_to) is None


def test_every_reason_has_a_meaning() -> None:
    assert all(reason.meaning for reason in WaitReason)


def test_the_limit_counts_the_memory_in_use() -> None:
    """Before, 20,002 empty messages counted as 0 bytes."""
    budget = Budget(1_000_000)
    one = Admission(budget, b"n" * 100)
    count = 0
    while one.has_room(messages(b"")):
        one.put(messages(b""))
        count += 1
    assert 1_000 < count < 3_000
    assert budget.messages == count
    assert 900_000 < budget.used <= budget.bytes_max
    for _ in range(count):
        one.take(())
    assert (budget.used, budget.messages, one.waiting) == (0, 0, {})


def test_adjacent_losses_are_merged_and_take_no_room() -> None:
    budget = Budget(0)
    one = Admission(budget, b"t")
    for number in range(100):
        one.put_loss(FROM_H2, 3, 2, (Dependency(b"h9", 1, number), Dependency(b"h8", 2, 0)))
    (loss,) = one.waiting[FROM_H2]
    assert loss.lost == loss.messages == 200
    assert set(loss.after) == {Dependency(b"h9", 1, 99), Dependency(b"h8", 2, 0)}
    assert budget.used == 0
    assert one.outstanding(FROM_H2) == 200


def test_acknowledgements_name_the_position_of_the_last_message_of_each_part() -> None:
    one = admission()
    one.sent(("h1", 1), (), 2)
    one.sent(("h1", 1), FROM_H2, 1)
    one.sent(("h1", 2), (), 3)
    assert one.acked("h1", (), 4, (5, 10)) == [Ack((), 2, 5, 8), Ack((), 2, 5, 10)]
    assert one.acked("h1", FROM_H2, 1, (0, 0)) == [Ack(FROM_H2, 1, 0, 0)]
    assert one.outstanding(()) == 1
    assert not one.is_settled(())


def test_messages_after_a_loss_at_another_hub_follow_the_epoch_of_the_loss() -> None:
    one = admission()
    one.sent(("h1", 1), (), 3)
    one.sent(("h1", 1), FROM_H2, 1)
    one.numbered_at = (5, 8)
    assert one.acked("h1", (), 1, (0, 5)) == [Ack((), 1, 0, 5)]
    assert one.numbered_at == (6, 0)
    assert one.acked("h1", (), 1, (0, 5)) == [Ack((), 1, 0, 5)]
    assert one.numbered_at == (6, 0), "the same epoch, once"
    one.numbered_at = (5, 8)
    assert one.acked("h1", FROM_H2, 1, (0, 5)) == [Ack(FROM_H2, 1, 0, 5)]
    assert one.acked("h1", (), 1, (0, 0)) == [Ack((), 1, 0, 0)]
    assert one.numbered_at == (5, 8), "of another path, or in no epoch that subscribers see the end of"


def test_the_loss_of_a_link_is_queued_before_waiting_messages() -> None:
    """
    1. five messages are in flight; the link begins anew;
    2. the hub acknowledges two that it had, and has one more to deal with: two are lost;
    3. they are numbered before what came later, once the last one is acknowledged.
    """
    one = admission()
    one.sent(("h1", 1), (), 5)
    assert one.void("h1", 77, may_be_lost=True) == [()]
    one.put(messages(b"later"))
    assert one.waiting_for(messages(b"x"), AT_H1, open_to) is WaitReason.ACKS
    assert one.acked("h1", (), 2, (5, 2)) == [Ack((), 2, 5, 2)]
    assert one.recounted("h1", (), 76, 0) is None, "the answer to an earlier question"
    loss = one.recounted("h1", (), 77, 1)
    assert isinstance(loss, Submission)
    assert loss.lost == 2
    assert one.waiting_for(loss, AT_H1, open_to) is WaitReason.ACKS
    assert one.acked("h1", (), 1, (5, 3)) == [Ack((), 1, 5, 3)]
    assert [item.messages for item in one.waiting[()]] == [2, 1]
    assert one.waiting_for(loss, AT_H1, open_to) is None


def test_if_only_acknowledgements_were_lost_no_loss_is_numbered() -> None:
    one = admission()
    one.sent(("h1", 1), (), 3)
    one.void("h1", 1, may_be_lost=False)
    assert one.recounted("h1", (), 1, 1) == Ack((), 2, 0, 0)
    assert not one.waiting
    one.void("h1", 2, may_be_lost=True)
    loss = one.recounted("h1", (), 2, 0)
    assert isinstance(loss, Submission)
    assert loss.lost == 1


def test_if_both_links_restarted_the_loss_is_doubtful() -> None:
    one = admission()
    one.sent(("h1", 1), (), 3)
    one.void("h1", 1, may_be_lost=True)
    one.void("h1", 2, may_be_lost=False)
    assert one.recounted("h1", (), 2, 1) == Submission((), 0, (), (), 2, is_doubtful=True)
    assert [item.lost for item in one.waiting[()]] == [2]


def test_messages_that_a_dead_hub_cannot_have_seen_are_resent_in_order_with_losses() -> None:
    one = admission()
    one.sent(("h1", 1), (), 2)
    one.sent(("h1", 1), FROM_H2, 3)
    unsent = [Submission((), 0, (), (), 2), Submission((), 0, (b"last",))]
    acks = one.target_died("h1", unsent, (Dependency(b"h9", 1, 1),))
    assert acks == [Ack((), 1, 0, 0), Ack((), 1, 0, 0)]
    assert [(item.lost, item.payloads) for item in one.waiting[FROM_H2]] == [(2, ()), (0, (b"last",))]
    assert not one.in_flight


def test_messages_of_a_dead_hub_are_dropped_and_not_acknowledged() -> None:
    one = admission()
    one.put(messages(b"a", b"b", path=FROM_H2))
    one.put(messages(b"own"))
    one.sent(("h1", 1), FROM_H2, 1)
    one.void("h1", 1, may_be_lost=True)
    assert one.origin_died("h2") == 2
    assert list(one.waiting) == [()]
    assert not one.unresolved
