"""Which publishers a head sends to another."""

from __future__ import annotations

import pytest

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import HubStatus, Pie, decode, encode
from equipoise.content.balancing.publishers import HeadUse, choose_move, choose_publishers


def use(ratio: float, rate: float = 100.0) -> HeadUse:
    return HeadUse(ratio=ratio, rate=rate)


def test_a_head_sends_publishers_to_the_head_that_uses_least() -> None:
    others = {"b": use(0.5), "c": use(0.2), "d": use(0.2)}
    move = choose_move(use(0.8), others, 0.15)
    assert move is not None and move.hub == "c"
    assert move.rate == pytest.approx(100 * 0.6 / 0.8 / 4)


@pytest.mark.parametrize(
    ("own", "others"),
    [
        (use(0.5), {"b": use(0.4)}),
        (use(0.3), {"b": use(0.9)}),
        (use(0.9, rate=0.0), {"b": use(0.1)}),
        (use(0.9), {}),
    ],
)
def test_heads_that_do_not_differ_or_have_no_publishers_send_none(
    own: HeadUse, others: dict[str, HeadUse]
) -> None:
    assert choose_move(own, others, 0.15) is None


def test_a_step_takes_the_highest_rates_that_fit_and_no_more() -> None:
    rates = {"a": 50.0, "b": 12.0, "c": 9.0, "d": 8.0, "e": 0.0}
    assert choose_publishers(rates, 20.0) == ["b", "d"]
    assert choose_publishers(rates, 5.0) == []


@pytest.mark.parametrize("strength", [1.0, 2.0, 3.0])
def test_steps_come_closer_to_the_balance_and_do_not_pass_it(strength: float) -> None:
    """Of two heads the other one is so many times weaker, and all that they do is for publishers."""
    rates = [100.0, 0.0]
    before = 1.0
    for _ in range(20):
        loads = rates[0] / 100, strength * rates[1] / 100
        move = choose_move(use(loads[0], rates[0]), {"b": use(loads[1], rates[1])}, 0.1)
        if move is None:
            break
        rates = [rates[0] - move.rate, rates[1] + move.rate]
        difference = rates[0] / 100 - strength * rates[1] / 100
        assert 0 <= difference < before
        before = difference
    assert before <= 0.1


def test_a_pie_with_a_use_that_no_head_has_is_no_message() -> None:
    def pie(head: HeadUse | None) -> bytes:
        fields = {"hub": "h", "cluster": "h", "status": HubStatus.OK, "load": EdgeLoad(), "is_global": True}
        return encode(Pie(**fields, head=head))  # type: ignore[arg-type]  # fields by name

    assert decode(pie(use(0.5))) is not None and decode(pie(None)) is not None
    assert decode(pie(use(-0.5))) is None
    assert decode(pie(use(0.5)).replace(b"0.5", b"1e999")) is None
