"""Every state that one writer, some recoveries and a few bookies can reach, with one bookie lost at any moment.

Requests to one bookie stay in order; everything else happens in any order. A recovery's answer comes with its request:
what other machines do between the two is found by the orders in which requests are served. The states are searched
exhaustively, equal ones once; recoveries that have done the same are equal whichever of them did it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from equipoise.ledger.effects import Acknowledge, Add, Effect, Fence, Recovered, RecoveryRead, SetMetadata
from equipoise.ledger.entry import decode_entry
from equipoise.ledger.metadata import LedgerMetadata, LedgerState, Segment
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.recovery import LedgerRecovery
from equipoise.ledger.wire import Code
from equipoise.ledger.writer import LedgerWriter, _InFlight

Machine = LedgerWriter | LedgerRecovery


@dataclass(frozen=True)
class Bounds:
    quorum: Quorum
    bookies: int
    entries: int
    recoveries: int
    losses: int = 1
    # Whether the answers to the writer are on their way for any time, or come with the request.
    has_late_answers: bool = False


class Bookie:
    """The rules of a bookie, without a disk."""

    __slots__ = ("entries", "is_alive", "is_fenced")

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        self.is_fenced = False
        self.is_alive = True

    def serve(self, request: Effect) -> tuple[Code, bytes]:
        match request:
            case Add(entry=entry, body=body, is_recovery=is_recovery):
                if self.is_fenced and not is_recovery:
                    return Code.FENCED, b""
                self.entries[entry] = body
                return Code.OK, b""
            case RecoveryRead(entry=entry):
                self.is_fenced = True
                return (Code.OK, self.entries[entry]) if entry in self.entries else (Code.NO_ENTRY, b"")
            case Fence():
                self.is_fenced = True
                if not self.entries:
                    return Code.NO_LEDGER, b""
                return Code.OK, self.entries[max(self.entries)]
        raise AssertionError(request)


class Step:
    """Something that may happen next in a world."""

    def __init__(self, method: Callable[..., None], *arguments: object, is_rare: bool = False) -> None:
        self._method = method
        self._arguments = arguments
        self.is_rare = is_rare

    def __call__(self, world: World) -> None:
        self._method(world, *self._arguments)


class World:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.names = [f"b{i}" for i in range(bounds.bookies)]
        self.bookies = {name: Bookie() for name in self.names}
        members = tuple(self.names[: bounds.quorum.ensemble])
        self.node = LedgerMetadata(1, bounds.quorum, (Segment(0, members),), b"")
        self.writer = LedgerWriter(self.node, self.replacement)
        self.recoveries: list[LedgerRecovery] = []
        # The node's state that each machine's next write expects.
        self.expected: list[LedgerMetadata] = [self.node]
        self.setting: dict[int, LedgerMetadata] = {}
        # By machine and bookie, requests on their way; answers on their way to the writer.
        self.requests: dict[tuple[int, str], tuple[Effect, ...]] = {}
        self.answers: dict[str, tuple[tuple[int, Code], ...]] = {}
        self.knows_loss: set[int] = set()
        self.acknowledged = -1
        self.appended = 0
        self.ends: set[int] = set()

    def replacement(self, others: Any) -> str | None:
        return next((name for name in self.names if name not in others), None)

    def machine(self, number: int) -> Machine:
        return self.writer if number == 0 else self.recoveries[number - 1]

    # --- what may happen next

    def steps(self) -> Iterator[Step]:
        if self.appended < self.bounds.entries and self.writer.failed is None:
            yield Step(World.append)
        if len(self.recoveries) < self.bounds.recoveries and self.node.state is not LedgerState.CLOSED:
            yield Step(World.recover, is_rare=True)
        gone = [name for name, bookie in self.bookies.items() if not bookie.is_alive]
        if len(gone) < self.bounds.losses:
            yield from (Step(World.lose, name, is_rare=True) for name in self.names)
        yield from (Step(World.serve, *key) for key in self.requests)
        yield from (Step(World.answer, name) for name in self.answers)
        yield from (Step(World.set_node, number) for number in self.setting)
        for number in range(1 + len(self.recoveries)):
            if gone and number not in self.knows_loss:
                yield Step(World.learn, number, gone[0])

    def append(self) -> None:
        self.appended += 1
        _, effects = self.writer.append(b"m%d" % self.appended)
        self.carry_out(0, effects)

    def recover(self) -> None:
        self.recoveries.append(LedgerRecovery(self.node, self.replacement))
        self.expected.append(self.node)
        number = len(self.recoveries)
        self.carry_out(number, self.recoveries[-1].start())

    def lose(self, name: str) -> None:
        self.bookies[name].is_alive = False
        self.answers.pop(name, None)
        for key in [key for key in self.requests if key[1] == name]:
            del self.requests[key]

    def learn(self, number: int, name: str) -> None:
        self.knows_loss.add(number)
        self.carry_out(number, self.machine(number).bookie_lost(name))

    def serve(self, number: int, name: str) -> None:
        request, *rest = self.requests.pop((number, name))
        if rest:
            self.requests[number, name] = tuple(rest)
        code, body = self.bookies[name].serve(request)
        if number == 0:
            assert isinstance(request, Add)
            self.answers[name] = (*self.answers.get(name, ()), (request.entry, code))
            if not self.bounds.has_late_answers:
                self.answer(name)
            return
        recovery = self.recoveries[number - 1]
        match request:
            case Add(entry=entry):
                self.carry_out(number, recovery.add_answered(name, entry, code))
            case RecoveryRead(entry=entry):
                self.carry_out(number, recovery.read_answered(name, entry, code, body))
            case Fence():
                self.carry_out(number, recovery.fence_answered(name, code, body))

    def answer(self, name: str) -> None:
        (entry, code), *rest = self.answers.pop(name)
        if rest:
            self.answers[name] = tuple(rest)
        self.carry_out(0, self.writer.add_answered(name, entry, code))

    def set_node(self, number: int) -> None:
        proposed = self.setting.pop(number)
        machine = self.machine(number)
        if self.expected[number] == self.node:
            self.node = self.expected[number] = proposed
            self.carry_out(number, machine.metadata_set())
        else:
            self.expected[number] = self.node
            self.carry_out(number, machine.metadata_conflict(self.node))

    def carry_out(self, number: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Add(bookie=name) | RecoveryRead(bookie=name) | Fence(bookie=name):
                    if self.bookies[name].is_alive:
                        self.requests[number, name] = (*self.requests.get((number, name), ()), effect)
                case SetMetadata(metadata=metadata):
                    self.setting[number] = metadata
                case Acknowledge(entry=entry):
                    self.acknowledged = max(self.acknowledged, entry)
                case Recovered(metadata=metadata):
                    self.ends.add(metadata.last)
                case _:
                    pass

    # --- what must hold

    def broken(self) -> str | None:
        if len(self.ends) > 1:
            return f"recoveries disagree on the last entry: {self.ends}"
        if self.node.state is not LedgerState.CLOSED:
            return None
        if self.node.last < self.acknowledged:
            return f"closed at {self.node.last} though {self.acknowledged} was acknowledged"
        for entry in range(self.node.last + 1):
            members = self.node.members_at(entry)
            holders = [self.bookies[members[i]] for i in self.node.quorum.write_set(entry)]
            copies = [
                holder.entries[entry] for holder in holders if holder.is_alive and entry in holder.entries
            ]
            if not copies:
                return f"no bookie that is asked has entry {entry}"
            decode_entry(copies[0], ledger=1, entry=entry)
        return None

    # --- copies and comparison

    def copy(self) -> World:
        new = World.__new__(World)
        for name, value in vars(self).items():
            setattr(new, name, _copied(value))
        new.bookies = {name: _copied_bookie(bookie) for name, bookie in self.bookies.items()}
        new.writer = _copied_machine(self.writer)
        new.recoveries = [_copied_machine(recovery) for recovery in self.recoveries]
        new.writer._replacement = new.replacement
        for recovery in new.recoveries:
            recovery._replacement = new.replacement
        return new

    def key(self) -> object:
        """Equal for equal states; recoveries in any order."""
        each = []
        for number in range(1, 1 + len(self.recoveries)):
            requests = tuple(self.requests.get((number, name), ()) for name in self.names)
            each.append(
                (
                    _frozen(vars(self.recoveries[number - 1])),
                    requests,
                    self.setting.get(number),
                    self.expected[number],
                    number in self.knows_loss,
                )
            )
        return (
            tuple(
                (bookie.is_alive, bookie.is_fenced, tuple(sorted(bookie.entries.items())))
                for bookie in self.bookies.values()
            ),
            self.node,
            _frozen(vars(self.writer)),
            tuple((self.requests.get((0, name), ()), self.answers.get(name, ())) for name in self.names),
            self.setting.get(0),
            self.expected[0],
            0 in self.knows_loss,
            self.acknowledged,
            self.appended,
            frozenset(self.ends),
            tuple(sorted(each, key=hash)),
        )


def _copied(value: Any) -> Any:
    return type(value)(value) if isinstance(value, dict | set | list) else value


def _copied_bookie(bookie: Bookie) -> Bookie:
    new = Bookie()
    new.entries, new.is_fenced, new.is_alive = dict(bookie.entries), bookie.is_fenced, bookie.is_alive
    return new


def _copied_machine(machine: Any) -> Any:
    new = object.__new__(type(machine))
    for name, value in vars(machine).items():
        if name == "_in_flight":
            value = {number: _copied_in_flight(item) for number, item in value.items()}
        setattr(new, name, _copied(value))
    return new


def _copied_in_flight(item: _InFlight) -> _InFlight:
    new = _InFlight(item.body)
    new.acks = set(item.acks)
    return new


def _frozen(values: dict[str, Any]) -> object:
    frozen: list[object] = []
    for name, value in values.items():
        if name == "_replacement":
            continue
        if isinstance(value, dict):
            frozen.append(tuple((n, item.body, frozenset(item.acks)) for n, item in value.items()))
        else:
            frozen.append(frozenset(value) if isinstance(value, set) else value)
    return tuple(frozen)


def search(bounds: Bounds, states_max: int | None = None) -> tuple[int, str | None]:
    """How many states there are, and what is broken in the first one that breaks a promise."""
    first = World(bounds)
    seen = {hash(first.key())}
    queue = deque([first])
    while queue and (states_max is None or len(seen) < states_max):
        world = queue.popleft()
        for step in world.steps():
            after = world.copy()
            step(after)
            key = hash(after.key())
            if key in seen:
                continue
            seen.add(key)
            if reason := after.broken():
                return len(seen), reason
            queue.append(after)
    return len(seen), None


def wander(bounds: Bounds, random: Random, steps_max: int = 400) -> tuple[World, str | None]:
    """One random walk to a state where nothing is left to happen, and what it broke."""
    world = World(bounds)
    for _ in range(steps_max):
        steps = list(world.steps())
        if not steps:
            break
        # Losses and recoveries are rare, so that there is something to lose and to recover.
        weights = [1 if step.is_rare else 8 for step in steps]
        random.choices(steps, weights)[0](world)
        if reason := world.broken():
            return world, reason
    return world, None
