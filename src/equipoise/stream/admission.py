"""The stages of a message before it has a position, for one stream at one hub. Pure.

    route         the hub that numbers it, or the next hub towards that one, is known and reachable
    dependencies  its dependencies have passed: positions of other streams, and messages of the same path that were
                  sent to another hub and are not acknowledged
    tokens        the topic's rate envelope has room for it        (a gate of limited topics)
    append        a quorum has stored it                           (a gate; no topic has one yet)
    number        this hub assigns its position; or it is in flight until the next hub acknowledges it
    acknowledge   the hub or client that sent it receives its position

Messages that arrived by the same path keep their order: one queue per stream, divided by path. All queues of a hub
share one budget, in bytes of memory. If there is no room, messages of this hub's own clients are rejected; those of
other hubs were accepted already, so they become a loss, which takes their place in the queue and is numbered like them:
subscribers detect the hole by its positions.

The caller executes: it takes the next submission that may proceed, numbers it or sends it, and executes the returned
acknowledgements.

Always true:
    a submission is in one place: waiting, in flight, unresolved, or numbered;
    `waiting_for` returns the first stage that holds the oldest submission of a path, or None;
    a topic that is open and involves no other hub has no Admission, and pays one comparison for it.
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
    """One stream's messages without a position yet. Owned by the stream."""

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
        # Of a trunk: messages of this hub's clients that wait while the hub changes the stream that it publishes to.
        self.routing: deque[Submission] = deque()
        # By path, the waiting submissions, the oldest first; no empty entries.
        self.waiting: dict[Path, deque[Submission]] = {}
        # By target hub and term: (path, number of messages), the oldest first.
        self.in_flight: dict[tuple[str, int], deque[tuple[Path, int]]] = {}
        # Runs of this hub's clients that are in flight with sequences: the first sequence, and the payloads.
        self.kept: deque[tuple[int, Sequence[bytes]]] = deque()
        # The highest sequence that a hub has received from a dead home; and whether SEEN of other hubs is outstanding.
        self.seen = 0
        self.is_doubtful = False
        # By target hub and path.
        self.unresolved: dict[tuple[str, Path], Unresolved] = {}
        # Target hub and term of the last message, if it was numbered: that home has this hub as a feeder, and sends
        # subscribers a gap if this hub dies.
        self.vouched: tuple[str, int] | None = None
        # The position of the last numbered message of this hub's clients.
        self.numbered_at = NOWHERE
        # Lost messages, numbered with the next message: a stream must not end at a position that no subscriber
        # receives.
        self.loss = 0
        # The gate for tokens of a limited topic.
        self.tokens: Gate | None = None
        self.gates: tuple[Gate, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no message is in progress, so that an open stream needs no Admission."""
        is_moving = self.waiting or self.routing or self.in_flight or self.unresolved
        return not (is_moving or self.loss or self.gates)

    @property
    def is_idle(self) -> bool:
        """Whether no message waits or is in flight here."""
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
        """Whether earlier messages of the path to another target are unacknowledged: these would overtake them."""
        if self.unresolved and any(came_by == path for _, came_by in self.unresolved):
            return True
        return any(
            other != way and any(came_by == path for came_by, _ in sent)
            for other, sent in self.in_flight.items()
        )

    def change_budget(self, budget: Budget) -> None:
        """Charge all waiting messages, present and future, to another budget."""
        items = [*self.routing, *(item for waiting in self.waiting.values() for item in waiting)]
        for item in items:
            self._charge(item, -1)
        self._budget = budget
        for item in items:
            self._charge(item, 1)

    def cost(self, item: Submission) -> int:
        """Memory of a waiting submission in bytes, with the name of its topic."""
        return item.size + self._name_bytes if item.payloads else 0

    def _charge(self, item: Submission, sign: int) -> None:
        self._budget.used += sign * self.cost(item)
        self._budget.messages += sign * len(item.payloads)

    def has_room(self, item: Submission) -> bool:
        return self._budget.has_room(self.cost(item))

    def put(self, item: Submission) -> None:
        """Queue a submission behind all others of its path."""
        self.waiting.setdefault(item.path, deque()).append(item)
        self._charge(item, 1)

    def put_first(self, item: Submission) -> None:
        """Queue a submission before all others of its path."""
        waiting = self.waiting.setdefault(item.path, deque())
        if item.lost and waiting and waiting[0].lost:
            first = waiting.popleft()
            is_doubtful = first.is_doubtful or item.is_doubtful
            item = first._replace(lost=first.lost + item.lost, is_doubtful=is_doubtful)
        waiting.appendleft(item)
        self._charge(item, 1)

    def put_loss(self, path: Path, version: int, messages: int, after: Sequence[Dependency] = ()) -> None:
        """There is no room for messages that another hub has accepted: queue their loss in their place."""
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
        """Queue submissions before all others that wait for the change of stream."""
        later = [self.take_routing() for _ in range(len(self.routing))]
        for item in (*items, *later):
            self.put_routing(item)

    def take_routing(self) -> Submission:
        item = self.routing.popleft()
        self._charge(item, -1)
        return item

    def take(self, path: Path) -> Submission:
        """Remove and return the oldest waiting submission of a path."""
        waiting = self.waiting[path]
        item = waiting.popleft()
        if not waiting:
            del self.waiting[path]
        self._charge(item, -1)
        return item

    def drop_waiting(self, path: Path) -> list[Submission]:
        """Remove and return all waiting submissions of a path."""
        return [self.take(path) for _ in range(len(self.waiting.get(path, ())))]

    def is_settled(self, path: Path) -> bool:
        """Whether all messages of a path are numbered, or known to be lost."""
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
        """The hub has acknowledged `messages` more of the path; the last is at `at`, as in Ack."""
        self.numbered_at = max(self.numbered_at, NOWHERE if path or at[0] or not at[1] else (at[1] + 1, 0))
        # Epoch 0: the home may have no room for the topic, so publishers' replies wait for acknowledgements again.
        self.vouched = self.vouched if at[0] else None
        entry = self.unresolved.get((hub, path))
        if entry is not None:
            # The acknowledgement is for the oldest of these: nothing else of the path was sent there since.
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
        """The oldest `messages` of the kept runs are acknowledged."""
        while messages and self.kept:
            sequence, payloads = self.kept.popleft()
            if messages < len(payloads):
                self.kept.appendleft((sequence + messages, payloads[messages:]))
                return
            messages -= len(payloads)

    # Links that restart, and hubs that die.

    def void(self, hub: str, ticket: int, *, may_be_lost: bool) -> list[Path]:
        """A link between this hub and another has restarted; return the paths for which the other is queried (RECOUNT).

        If it was the link to the other hub, messages may be lost; if it was the link back, acknowledgements.
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
        """The hub still holds `left` of the unresolved messages.

        Either the others never arrived: their loss is queued in their place, returned, and acknowledged when numbered.
        Or their acknowledgements were lost: they are acknowledged without a position. If both links have restarted,
        both are possible: a gap must not count messages that arrived, so the loss is doubtful. So is an urgent loss,
        which must not wait for the next message, because that may be in another stream.
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
        """A target hub is dead. It cannot have received `unsent` messages: they wait again. `own_after`: dependencies
        of this hub's messages, which lost ones may have carried. `is_seen_told`: the other hubs report which messages
        of this hub they have received; all of them wait until `resolve`.
        """
        acks = [Ack(by, entry.messages, *NOWHERE) for (to, by), entry in self.unresolved.items() if to == hub]
        self.unresolved = {key: entry for key, entry in self.unresolved.items() if key[0] != hub}
        ways = [way for way in self.in_flight if way[0] == hub]
        entries = [entry for way in ways for entry in self.in_flight.pop(way)]
        own = sum(count for path, count in entries if not path)
        # All kept runs are in flight to one hub; otherwise they would overtake each other.
        kept, self.kept = (self.kept, deque()) if own else (deque(), self.kept)
        if is_seen_told and 0 < own == sum(len(payloads) for _, payloads in kept):
            self.is_doubtful = True
            entries = [entry for entry in entries if entry[0]]
            unsent = [item for item in unsent if item.path]
            for sequence, payloads in reversed(kept):
                self.put_first(Submission((), 0, payloads, sequence=sequence))
        paths = [path for path, count in entries for _ in range(count)]
        # `unsent` may include unresolved messages.
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
        """All hubs have sent SEEN: release the messages that none has received. `is_lost`: drop them all."""
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
        """Acknowledged messages are lost in the stream, in `epoch`: make further messages depend on the whole epoch, so
        that no subscriber receives them in another stream before the loss. Returns the epoch; 0: unknown.
        """
        if epoch := max(epoch, self.numbered_at[0]):
            self.numbered_at = (epoch + 1, 0)
        return epoch

    def origin_died(self, hub: str) -> int:
        """A sending hub is dead: drop its waiting messages, and detach those in flight. Returns the number dropped."""
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
    """The dependencies, reduced to the latest position of each stream."""
    latest: dict[bytes, Dependency] = {}
    for one in after:
        if one.stream not in latest or latest[one.stream][1:] < one[1:]:
            latest[one.stream] = one
    return tuple(latest.values())
