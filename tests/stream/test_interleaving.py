"""Any interleaving of sources yields the same ordered parts, at a relay and at a client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.stream.parts import Messages, Opened, Part
from equipoise.stream.position import Position

from .engines import ClientEngine, Engine, RelayEngine, Taken

# By epoch, in how many parts of how many messages it is sent; a topic moves after each.
histories = st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=4)
choices = st.lists(st.integers(0, 1 << 16), max_size=60)


def home(epoch: int) -> str:
    """Three hubs take turns, so that a topic comes back to where it was."""
    return f"h{epoch % 3}"


def parts_of(history: list[list[int]]) -> list[Part]:
    """All that a hub has to send that was there from the beginning."""
    parts: list[Part] = []
    former = Position(0, 0)
    for epoch, sizes in enumerate(history, 1):
        if epoch > 1:
            parts.append(Opened(epoch, *former, home(epoch - 1)))
        n = 0
        for size in sizes:
            parts.append(Messages(epoch, n + 1, [b"x"] * size))
            n += size
        former = Position(epoch, n)
    return parts


def positions(parts: list[Part]) -> Taken:
    return [
        Position(part.epoch, part.n + k)
        for part in parts
        if isinstance(part, Messages)
        for k in range(len(part.payloads))
    ]


def end_of(part: Part) -> tuple[int, int]:
    """Where a stream stands that has sent this."""
    return (part.epoch, part.n + len(part.payloads) - 1) if isinstance(part, Messages) else (part.epoch, 0)


@pytest.mark.parametrize("make", [ClientEngine, RelayEngine])
@settings(deadline=None, max_examples=200)
@given(history=histories, turns=choices)
def test_a_stream_from_several_sources_in_sequence_is_complete_without_duplicates(
    make: Callable[[], Engine], history: list[list[int]], turns: list[int]
) -> None:
    """Sources join where the stream stands at them, and send what follows at their own pace, until they are left."""
    engine, parts = make(), parts_of(history)
    sent = 0
    queues: dict[str, deque[Part]] = {"s0": deque()}
    engine.join("s0", (1, 0))

    def deliver(turn: int) -> None:
        name = sorted(queues)[turn % len(queues)]
        if queues[name] and name in engine.sources:
            engine.receive(name, queues[name].popleft())

    for turn in turns:
        if turn % 5 == 0 and len(engine.sources) == 1:
            name = f"s{len(queues)}"
            queues[name] = deque()
            engine.join(name, end_of(parts[sent - 1]) if sent else (1, 0))
        elif turn % 5 in (1, 2) and sent < len(parts):
            for queue in queues.values():
                queue.append(parts[sent])
            sent += 1
        else:
            deliver(turn // 5)
    while any(queue for name, queue in queues.items() if name in engine.sources):
        for turn in range(len(queues)):
            deliver(turn)
    assert engine.taken == positions(parts[:sent])
    assert len(engine.sources) == 1, "the others have been left"


@settings(deadline=None, max_examples=200)
@given(history=histories, turns=choices)
def test_a_relay_without_a_source_takes_the_epochs_of_all_homes_in_order(
    history: list[list[int]], turns: list[int]
) -> None:
    """Each home sends the epochs that it numbered, and answers a flush behind what it has sent by then."""
    relay, queues = RelayEngine(), _by_home(history)

    def deliver(turn: int) -> None:
        name = sorted(queues)[turn % len(queues)]
        if queues[name]:
            _send(relay, name, queues[name].popleft())
        _answer(relay, queues)

    for turn in turns:
        deliver(turn)
    while any(queues.values()):
        for turn in range(len(queues)):
            deliver(turn)
    assert relay.taken == positions(parts_of(history))
    assert not relay.pending and not relay.flushes


@settings(deadline=None, max_examples=200)
@given(history=histories, turns=choices, dead=st.integers(0, 2))
def test_a_dead_home_blocks_no_message_and_no_later_message_is_lost(
    history: list[list[int]], turns: list[int], dead: int
) -> None:
    """What lives on of earlier epochs may come too late: only the dead home knew that they come first."""
    relay, queues, name = RelayEngine(), _by_home(history), f"h{dead}"
    for turn in turns:
        hub = sorted(queues)[turn % len(queues)]
        if queues[hub]:
            _send(relay, hub, queues[hub].popleft())
        _answer(relay, queues)
    unsent = [part for part in queues.pop(name) if not isinstance(part, int)]
    relay.dead.add(name)
    relay.lost(name, is_gone=True)
    relay.advance()
    while any(queues.values()):
        for hub in sorted(queues):
            if queues[hub]:
                _send(relay, hub, queues[hub].popleft())
            _answer(relay, queues)
    whole = positions(parts_of(history))
    epoch_lost = max((part.epoch for part in unsent), default=0)
    assert relay.taken == [at for at in whole if at in relay.taken], "in order, each once"
    missing = [at for at in whole if at not in relay.taken]
    assert all(isinstance(at, Position) and at.epoch <= epoch_lost for at in missing)
    assert not relay.pending


Queues = dict[str, deque["Part | int"]]


def _by_home(history: list[list[int]]) -> Queues:
    queues: Queues = {f"h{k}": deque() for k in range(3)}
    for part in parts_of(history):
        queues[home(part.epoch)].append(part)
    return queues


def _send(relay: RelayEngine, hub: str, item: Part | int) -> None:
    """A part; a number: that all of this epoch is sent."""
    if isinstance(item, int):
        relay.flushed(hub, item)
        relay.advance()
    else:
        relay.receive(hub, item)


def _answer(relay: RelayEngine, queues: Queues) -> None:
    while relay.flush_requests:
        hub, epoch = relay.flush_requests.pop()
        queues.setdefault(hub, deque()).append(epoch)
