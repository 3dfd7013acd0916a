"""The stages of a message before it has a position, for one stream at one hub. Pure.

    route         the hub that numbers it, or the next one towards it, is known and can be reached
    dependencies  what it comes after has passed: positions of other streams, and messages of the same path that went
                  to another hub and are not acknowledged
    tokens        the topic's rate envelope has room for it        (a gate of limited topics)
    append        a quorum has stored it                           (a gate; no topic has one yet)
    number        here it gets its position; elsewhere it is in flight until the next hub acknowledges it
    acknowledge   the hub or the client that it came from learns its position

Messages that came here by the same path keep their order: one queue per stream, in parts by path. Every queue of a hub
draws on one budget, in bytes as they are in memory. Where there is no room, messages of this hub's own clients are
refused; those of other hubs were accepted already, so they become a loss, which takes their place in the queue and is
numbered like them: subscribers see the hole by its positions.

The caller executes: it asks for the next submission that may go, numbers it or sends it, and carries out the
acknowledgements that are returned.

Always true:
    a submission is in one place: waiting, in flight, unresolved, or numbered;
    `waiting_for` names the first stage that holds the oldest submission of a path, or None;
    a topic that is simply open has no Admission, and pays one comparison for all of this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from equipoise.stream.parts import Dependency
from equipoise.stream.submission import (
    GONE,
    NOWHERE,
    Ack,
    Budget,
    Gate,
    NextHop,
    Path,
    Submission,
    Unresolved,
    WaitReason,
)

__all__ = ["Admission"]


class Admission:
    """One stream's messages on their way in. Owned by the stream."""

    __slots__ = (
        "_budget",
        "_name_bytes",
        "gates",
        "in_flight",
        "is_doubtful",
        "kept",
        "loss",
        "numbered_at",
        "routing",
        "seen",
        "tokens",
        "unresolved",
        "vouched",
        "waiting",
    )

    def __init__(self, budget: Budget, name: bytes) -> None:
        self._budget = budget
        self._name_bytes = len(name)
        # Of a trunk: messages of this hub's clients that wait while it changes which stream it publishes them to.
        self.routing: deque[Submission] = deque()
        # By path, what waits, the oldest first; no path without any.
        self.waiting: dict[Path, deque[Submission]] = {}
        # By the hub and the term that they were sent to and in: how they came here, how many. The oldest first.
        self.in_flight: dict[tuple[str, int], deque[tuple[Path, int]]] = {}
        # Messages of this hub's clients that are in flight and have sequences: that of the first, and they.
        self.kept: deque[tuple[int, Sequence[bytes]]] = deque()
        # The highest sequence that a hub has seen of a home that died; and whether others may still have to say.
        self.seen = 0
        self.is_doubtful = False
        # By hub and path.
        self.unresolved: dict[tuple[str, Path], Unresolved] = {}
        # The way of the last message, if it got a position: the home that numbered it knows this hub as one that
        # messages come through, and tells subscribers of a gap if this hub dies.
        self.vouched: tuple[str, int] | None = None
        # The position of the last message of this hub's clients that has one.
        self.numbered_at = NOWHERE
        # Lost messages, numbered with the next one: a stream must not end at a position that no subscriber gets.
        self.loss = 0
        # Of a limited topic: whether its envelope has room. It holds messages, not the stream itself.
        self.tokens: Gate | None = None
        self.gates: tuple[Gate, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is under way, and a stream that is open needs no Admission."""
        is_moving = self.waiting or self.routing or self.in_flight or self.unresolved
        return not (is_moving or self.loss or self.gates)

    @property
    def is_idle(self) -> bool:
        """Whether no message is under way here, as far as it is known."""
        return not (self.waiting or self.routing or self.in_flight or self.unresolved)

    # Waiting.

    def waiting_for(
        self, item: Submission, route: NextHop, is_blocked: Callable[[Sequence[Dependency]], bool]
    ) -> WaitReason | None:
        """The first stage that holds the submission, if it is the oldest of its path."""
        if self.is_doubtful and not item.path:
            return WaitReason.ACKS
        if route.is_here:
            if item.after and is_blocked(item.after):
                return WaitReason.DEPENDENCY
        elif route.way is None:
            return WaitReason.HOME
        elif not route.is_up:
            return WaitReason.LINK
        elif route.version is not None and item.version > route.version:
            return WaitReason.PLAN
        if self._is_ahead(item.path, route.way):
            return WaitReason.ACKS
        for gate in self.gates if self.tokens is None else (self.tokens, *self.gates):
            reason = gate(item, route)
            if reason is not None:
                return reason
        return None

    def _is_ahead(self, path: Path, way: tuple[str, int] | None) -> bool:
        """Whether messages of the path went another way and are not acknowledged: these would overtake them."""
        if self.unresolved and any(came_by == path for _, came_by in self.unresolved):
            return True
        return any(
            other != way and any(came_by == path for came_by, _ in sent)
            for other, sent in self.in_flight.items()
        )

    def change_budget(self, budget: Budget) -> None:
        """Let all that waits, and will wait, count elsewhere."""
        items = [*self.routing, *(item for waiting in self.waiting.values() for item in waiting)]
        for item in items:
            self._charge(item, -1)
        self._budget = budget
        for item in items:
            self._charge(item, 1)

    def cost(self, item: Submission) -> int:
        """Bytes that it takes while it waits, with the name of its topic."""
        return item.size + self._name_bytes if item.payloads else 0

    def _charge(self, item: Submission, sign: int) -> None:
        self._budget.used += sign * self.cost(item)
        self._budget.messages += sign * len(item.payloads)

    def has_room(self, item: Submission) -> bool:
        return self._budget.has_room(self.cost(item))

    def put(self, item: Submission) -> None:
        """Let it wait behind all others of its path."""
        self.waiting.setdefault(item.path, deque()).append(item)
        self._charge(item, 1)

    def put_first(self, item: Submission) -> None:
        """Let it wait before all others of its path."""
        waiting = self.waiting.setdefault(item.path, deque())
        if item.lost and waiting and waiting[0].lost:
            first = waiting.popleft()
            is_doubtful = first.is_doubtful or item.is_doubtful
            item = first._replace(lost=first.lost + item.lost, is_doubtful=is_doubtful)
        waiting.appendleft(item)
        self._charge(item, 1)

    def put_loss(self, path: Path, version: int, messages: int, after: Sequence[Dependency] = ()) -> None:
        """There is no room for messages that were accepted elsewhere: their loss waits in their place."""
        waiting, is_doubtful = self.waiting.setdefault(path, deque()), False
        if waiting and waiting[-1].lost:
            last = waiting.pop()
            messages, is_doubtful = messages + last.lost, last.is_doubtful
            after = _latest(*last.after, *after)
        waiting.append(Submission(path, version, (), after, messages, is_doubtful))

    def put_routing(self, item: Submission) -> None:
        self.routing.append(item)
        self._charge(item, 1)

    def put_routing_first(self, *items: Submission) -> None:
        """Let them go before all that waits for the change."""
        later = [self.take_routing() for _ in range(len(self.routing))]
        for item in (*items, *later):
            self.put_routing(item)

    def take_routing(self) -> Submission:
        item = self.routing.popleft()
        self._charge(item, -1)
        return item

    def take(self, path: Path) -> Submission:
        """The oldest of a path that waits."""
        waiting = self.waiting[path]
        item = waiting.popleft()
        if not waiting:
            del self.waiting[path]
        self._charge(item, -1)
        return item

    def drop_waiting(self, path: Path) -> list[Submission]:
        """Take all of a path."""
        return [self.take(path) for _ in range(len(self.waiting.get(path, ())))]

    def is_settled(self, path: Path) -> bool:
        """Whether all messages of a path have their positions, or never will."""
        is_sent = any(came_by == path for sent in self.in_flight.values() for came_by, _ in sent)
        return path not in self.waiting and not is_sent and all(by != path for _, by in self.unresolved)

    def outstanding(self, path: Path) -> int:
        waiting = sum(item.messages for item in self.waiting.get(path, ()))
        unresolved = sum(entry.messages for (_, by), entry in self.unresolved.items() if by == path)
        in_flight = sum(count for sent in self.in_flight.values() for by, count in sent if by == path)
        return waiting + unresolved + in_flight

    # In flight.

    def sent(self, way: tuple[str, int], path: Path, messages: int) -> None:
        self.in_flight.setdefault(way, deque()).append((path, messages))

    def acked(self, hub: str, path: Path, messages: int, at: tuple[int, int]) -> list[Ack]:
        """The hub has dealt with so many more of the path; the last is at `at`, as an Ack has it."""
        self.numbered_at = max(self.numbered_at, NOWHERE if path or at[0] or not at[1] else (at[1] + 1, 0))
        # The home may have no room for the topic: publishers are answered by what becomes of their messages.
        self.vouched = self.vouched if at[0] else None
        entry = self.unresolved.get((hub, path))
        if entry is not None:
            # These are meant, and the oldest of them: nothing else of the path has been sent there since.
            part = min(messages, entry.messages)
            self._set_unresolved(hub, path, entry._replace(messages=entry.messages - part))
            return [Ack(path, part, *at)] if part else []
        acks: list[Ack] = []
        for way in [way for way in self.in_flight if way[0] == hub]:
            left: deque[tuple[Path, int]] = deque()
            for came_by, count in self.in_flight[way]:
                part = min(count, messages) if came_by == path else 0
                messages -= part
                if part < count:
                    left.append((came_by, count - part))
                if part and self.kept and not path:
                    self._forget(part)
                if part:
                    acks.append(Ack(path, part, at[0], at[1] - messages) if at[0] else Ack(path, part, *at))
                    if at[0]:
                        self.vouched = way
            if left:
                self.in_flight[way] = left
            else:
                del self.in_flight[way]
        return acks

    def _forget(self, messages: int) -> None:
        """The oldest of those that are kept are acknowledged."""
        while messages and self.kept:
            sequence, payloads = self.kept.popleft()
            if messages < len(payloads):
                self.kept.appendleft((sequence + messages, payloads[messages:]))
                return
            messages -= len(payloads)

    # Links that begin anew, and hubs that die.

    def void(self, hub: str, ticket: int, *, may_be_lost: bool) -> list[Path]:
        """A link between this hub and another began anew; the paths that the other has to be asked about.

        If it was the link to the other, messages may be lost; if it was the link back, acknowledgements.
        """
        found = {by: entry for (to, by), entry in self.unresolved.items() if to == hub}
        for way in [way for way in self.in_flight if way[0] == hub]:
            for path, count in self.in_flight.pop(way):
                if not path:
                    self.kept.clear()
                entry = found.get(path, Unresolved(ticket, False, 0, False, False))
                found[path] = entry._replace(messages=entry.messages + count)
        for path, entry in found.items():
            self.unresolved[hub, path] = entry._replace(
                ticket=ticket,
                is_counted=False,
                may_be_lost=entry.may_be_lost or may_be_lost,
                may_be_acked=entry.may_be_acked or not may_be_lost,
            )
        return list(found)

    def recounted(
        self, hub: str, path: Path, ticket: int, left: int, *, is_urgent: bool = False
    ) -> Ack | Submission | None:
        """The hub has yet to deal with `left` of what is unresolved.

        It never got the others: their loss waits in their place, is returned, and acknowledged when it is numbered. Or
        it did, and its acknowledgements were lost: then they are acknowledged without a position. If both links began
        anew it is not known which of the two it was: a gap must not count what did arrive, so the loss is doubtful.
        So is an urgent one, which must not wait for the next message: that may come in another stream.
        """
        entry = self.unresolved.get((hub, path))
        if entry is None or entry.ticket != ticket or entry.is_counted:
            return None
        left = min(left, entry.messages)
        over = entry.messages - left
        self._set_unresolved(hub, path, Unresolved(ticket, True, left, False, False))
        if not over:
            return None
        if not entry.may_be_lost:
            return Ack(path, over, *NOWHERE)
        loss = Submission(path, 0, (), (), over, entry.may_be_acked or is_urgent)
        self.put_first(loss)
        return loss

    def _set_unresolved(self, hub: str, path: Path, entry: Unresolved) -> None:
        if entry.messages:
            self.unresolved[hub, path] = entry
        else:
            self.unresolved.pop((hub, path), None)

    def target_died(
        self,
        hub: str,
        unsent: Iterable[Submission],
        own_after: Sequence[Dependency],
        *,
        is_seen_told: bool = False,
    ) -> list[Ack]:
        """A hub that messages went to is dead. It cannot have seen those that were never sent: they wait again.

        `own_after`: what the messages of this hub's clients come after; those that were lost may have carried it.
        `is_seen_told`: the others say which messages of this hub's clients they have seen; all wait until `resolve`.
        """
        acks = [Ack(by, entry.messages, *NOWHERE) for (to, by), entry in self.unresolved.items() if to == hub]
        self.unresolved = {key: entry for key, entry in self.unresolved.items() if key[0] != hub}
        ways = [way for way in self.in_flight if way[0] == hub]
        entries = [entry for way in ways for entry in self.in_flight.pop(way)]
        own = sum(count for path, count in entries if not path)
        # All of them are in flight to one hub: else they would overtake each other.
        kept, self.kept = (self.kept, deque()) if own else (deque(), self.kept)
        if is_seen_told and 0 < own == sum(len(payloads) for _, payloads in kept):
            self.is_doubtful = True
            entries = [entry for entry in entries if entry[0]]
            unsent = [item for item in unsent if item.path]
            for sequence, payloads in reversed(kept):
                self.put_first(Submission((), 0, payloads, sequence=sequence))
        paths = [path for path, count in entries for _ in range(count)]
        # What is unresolved may be among them.
        messages = [one for item in unsent for one in item.singly()]
        messages = messages[max(0, len(messages) - len(paths)) :]
        lost = len(paths) - len(messages)
        acks += [Ack(path, 1, *NOWHERE) for path in paths[:lost]]
        again = [one._replace(path=path, version=0) for path, one in zip(paths[lost:], messages, strict=True)]
        first = next((number for number, path in enumerate(paths[lost:]) if not path), None)
        if first is not None:
            again[first] = again[first]._replace(after=own_after)
        for item in reversed(again):
            self.put_first(item)
        return acks

    def resolve(self, *, is_lost: bool = False) -> list[Ack]:
        """All others have said what they have seen: what none of them has may go. `is_lost`: they never will."""
        self.is_doubtful = False
        until, dropped = 1 << 63 if is_lost else self.seen, 0
        while (waiting := self.waiting.get(())) and 0 < waiting[0].sequence <= until:
            item = self.take(())
            count = min(len(item.payloads), until - item.sequence + 1)
            dropped += count
            if count < len(item.payloads):
                self.put_first(item._replace(payloads=item.payloads[count:], sequence=item.sequence + count))
        return [Ack((), dropped, *NOWHERE)] if dropped else []

    def follow_loss(self, epoch: int) -> int:
        """Acknowledged messages are lost in the stream, which was in that epoch: what comes next follows all of it,
        so that no subscriber gets it in another stream before it knows of the loss. Returns the epoch; 0: unknown.
        """
        if epoch := max(epoch, self.numbered_at[0]):
            self.numbered_at = (epoch + 1, 0)
        return epoch

    def origin_died(self, hub: str) -> int:
        """A hub that messages came from is dead: its next incarnation must not meet them. How many are dropped."""
        gone = [path for path in self.waiting if path and path[-1][0] == hub]
        dropped = sum(item.messages for path in gone for item in self.drop_waiting(path))
        for way, sent in self.in_flight.items():
            self.in_flight[way] = deque(
                [(GONE if path and path[-1][0] == hub else path, count) for path, count in sent]
            )
        for target, path in list(self.unresolved):
            if path and path[-1][0] == hub:
                del self.unresolved[target, path]
        return dropped


def _latest(*after: Dependency) -> tuple[Dependency, ...]:
    """By stream, the latest position."""
    latest: dict[bytes, Dependency] = {}
    for one in after:
        if one.stream not in latest or latest[one.stream][1:] < one[1:]:
            latest[one.stream] = one
    return tuple(latest.values())
