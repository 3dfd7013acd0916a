"""Publishes of this hub's clients to rate-limited topics: admit at once, queue, or reject.

A command that cannot be sent at once (`client_admission`) waits in the topic's `ClientQueue`. If this hub numbers the
topic, its turn comes with a token. Otherwise it is sent ahead to the home as soon as that has room, so publishers are
slowed down at whichever hub they are connected.

A command is rejected when it is the first of its connection and cannot have its turn within the spec's waiting time: a
pipelining client cannot expect an earlier decision, and is slowed down. The next token is reserved for that connection
(`TopicLimit.reserve`). A command of several messages is rejected as a whole, or not at all.

Always true: a command in the queue has no reply yet: it is admitted, or rejected, or its client disconnects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.client_admission import ClientAdmission
from equipoise.hub.cluster.client_queue import ClientQueue, PendingPublish, PositionedReply
from equipoise.hub.cluster.link.frames import Tag, WaitingFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.topic_limit import CLIENTS, TopicLimit
from equipoise.hub.cluster.topic_tokens import TopicTokens
from equipoise.hub.cluster.turn_estimate import TurnEstimate
from equipoise.hub.data.reply import NO_ROOM, REPLY_S, Reply, ReplyMode
from equipoise.resp.replies import error
from equipoise.stream.submission import Budget

if TYPE_CHECKING:
    from equipoise.hub.cluster.publish_route import Acked
    from equipoise.hub.data.topic import Topic

__all__ = ["LimitedClients"]


class _Acks(Protocol):
    def when_acked(self, topic: Topic, count: int | None, call: Acked) -> None: ...


class _Routes(Protocol):
    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool: ...
    def answer(self, topic: Topic, count: int) -> bytes | Reply: ...
    def stream_now(self, trunk: Topic) -> Topic: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def receipts(self) -> _Acks: ...
    @property
    def ways(self) -> _Routes: ...


class _Turns(Protocol):
    """The interface of the rate limits to clients: turns of waiting commands."""

    def serve(self, topic: Topic) -> None: ...
    def look_at(self, topic: Topic, limit: TopicLimit) -> None: ...


class LimitedClients:
    """Owned by RateLimits."""

    def __init__(self, cluster: _Cluster, tokens: TopicTokens, turns: _Turns) -> None:
        self._cluster = cluster
        self._core = cluster.core
        self._tokens = tokens
        self._turns = turns
        self._admission = ClientAdmission(cluster, tokens)
        self.acked = self._admission.acked
        self._estimate = TurnEstimate(cluster)
        self.budget = Budget(cluster.core.limits.waiting_bytes_max)
        # Number of rejected messages, of all topics.
        self.refused = 0

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client: the reply to each message, or a pending reply to all until the last is admitted."""
        limit = topic.limit
        assert limit is not None, "asked of limited topics"
        count = len(payloads)
        if self._tokens.take(topic, count):
            return self.publish(topic, payloads)
        after = self._owed_after(topic, limit)
        if (is_taken := self._admission.admit_at_once(topic, limit, payloads, after)) is not None:
            return self._cluster.ways.answer(topic, count) if is_taken else error(NO_ROOM)
        reply = Reply(wait_s=None)
        return self._wait(topic, limit, reply, payloads, after)

    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Publish messages whose tokens were taken; the reply to each, empty where `own_replies` has the replies."""
        self._core.publish(topic, payloads)
        return self._core.audience_of(topic).reply

    def submit_positioned(
        self,
        topic: Topic,
        payloads: Sequence[bytes],
        after: Sequence[Tag],
        receipt: Callable[[Tag, bool], bytes],
    ) -> bytes | Reply:
        """Publish for a client that requested a receipt: the reply has the position of the last message."""
        limit = topic.limit
        assert limit is not None, "asked of limited topics"
        after = (*after, *self._owed_after(topic, limit))
        reply = PositionedReply(len(payloads), receipt)
        if (is_taken := self._admission.admit_at_once(topic, limit, payloads, after)) is not None:
            if not is_taken:
                return error(NO_ROOM)
            reply.left = 1
            self._cluster.receipts.when_acked(topic, len(payloads), reply.acked)
            self._core.shell.call_later(REPLY_S, reply.expire)
            return reply
        return self._wait(topic, limit, reply, payloads, after)

    def ready(self, topic: Topic) -> int:
        """Number of messages that a pipelining client may publish at once, in one run."""
        is_simple = topic.stream is None and topic.limit is not None and topic.limit.queue is None
        return self._tokens.room(topic) if is_simple else 0

    def _wait(
        self,
        topic: Topic,
        limit: TopicLimit,
        reply: Reply,
        payloads: Sequence[bytes],
        after: Sequence[Tag],
    ) -> bytes | Reply:
        one = PendingPublish(topic.publisher or 0, payloads, after, reply, self._tokens.now())
        if not self.budget.has_room(one.size):
            self._keep_order(limit, one, None)
            return self.refusal(topic, limit, None, len(payloads))
        limit.take_back()
        queue = limit.queue = limit.queue or ClientQueue(limit.client_turns)
        self.budget.used += one.size
        self.budget.messages += len(payloads)
        reply.when_abandoned(lambda: self._gone(topic, limit, one))
        if queue.add(one):
            if (refusal := self._judge(topic, limit, one)) is not None:
                self._keep_order(limit, one, self._dequeue(queue, one))
                self._turns.look_at(topic, limit)
                return refusal
            # Only the first command of a connection can change what is served next.
            self._turns.serve(topic)
        return reply if reply.pieces is not None else self._defer(topic, limit, one)

    def _defer(self, topic: Topic, limit: TopicLimit, one: PendingPublish) -> bytes | Reply:
        """Defer the reply if the client has requested deferred replies: its other topics are not delayed."""
        session, is_run = self._core.sessions.get(one.session), len(one.payloads) > 1
        deferred = None if session is None or session.is_gathering else session.deferred
        if session is None or deferred is None or not deferred.has_room:
            return one.reply
        if session.reply_mode is not ReplyMode.ON or (is_run and not isinstance(one.reply, PositionedReply)):
            return one.reply
        return deferred.defer(one.reply, topic.name, limit.ahead, self._core.now())

    def _gone(self, topic: Topic, limit: TopicLimit, one: PendingPublish) -> None:
        """The client has disconnected: its commands without a reply are not published."""
        if limit.queue is not None:
            self._promote(topic, limit, self._dequeue(limit.queue, one))
            self._turns.look_at(topic, limit)

    def free(self, topic: Topic, limit: TopicLimit) -> None:
        """The limit was removed: send all waiting messages."""
        queue, limit.queue = limit.queue, None
        while queue is not None and (one := queue.first()) is not None:
            self._dequeue(queue, one)
            while one.left and self._send(topic, one):
                pass

    def _dequeue(self, queue: ClientQueue, one: PendingPublish) -> PendingPublish | None:
        self.budget.used -= one.size
        self.budget.messages -= len(one.payloads)
        return queue.remove(one)

    def _promote(self, topic: Topic, limit: TopicLimit, one: PendingPublish | None) -> None:
        """A command is now the first of its connection: reject it, and its successors, if they would wait too long."""
        while one is not None and (refusal := self._judge(topic, limit, one)) is not None:
            assert limit.queue is not None, "it waits there"
            following = self._dequeue(limit.queue, one)
            self._keep_order(limit, one, following)
            one.complete(refusal)
            one = following

    def _owed_after(self, topic: Topic, limit: TopicLimit) -> Sequence[Tag]:
        """Dependencies of the connection's next message, from an earlier command that was rejected."""
        return limit.owed_after.pop(topic.publisher or 0, ()) if limit.owed_after else ()

    def _keep_order(self, limit: TopicLimit, one: PendingPublish, following: PendingPublish | None) -> None:
        """A command was rejected: the next one of its connection inherits its dependencies."""
        if one.after and following is not None:
            following.after = (*one.after, *following.after)
        elif one.after:
            owed = limit.owed_after.items()
            limit.owed_after = {key: after for key, after in owed if key in self._core.sessions}
            limit.owed_after[one.session] = one.after

    # Turns.

    def _judge(self, topic: Topic, limit: TopicLimit, one: PendingPublish) -> bytes | None:
        """Reject a command, the first of its connection, if it cannot have its turn within its waiting time."""
        now = self._tokens.now()
        wait_ns = self._estimate.wait(topic, limit, one, now)
        target = self._cluster.ways.stream_now(topic)
        if wait_ns is None or wait_ns <= limit.wait_ns:
            (target.limit or limit).reserve.leave(one.session)
            assert limit.queue is not None, "it waits there"
            limit.queue.lead(one, now)
            return None
        if len(one.payloads) == 1:
            self._estimate.reserve(topic, limit, one.session, now)
        return self.refusal(topic, limit, wait_ns, one.left)

    def refusal(self, topic: Topic, limit: TopicLimit, wait_ns: int | None, count: int) -> bytes:
        limit.refused += count
        self.refused += count
        self._core.metering.refused(topic)
        name = topic.name.decode("utf-8", "backslashreplace")
        text = f"LIMITED {name} admits {limit.envelope.text}: try again in {limit.retry_ms(wait_ns)} ms"
        return self._core.refuse(text)

    def serve(self, trunk: Topic, limit: TopicLimit, queue: ClientQueue) -> None:
        """Reject overdue commands; give clients turns here, or send their messages ahead to the home."""
        now = self._tokens.now()
        while (one := queue.overdue(now - limit.wait_ns)) is not None:
            following = self._dequeue(queue, one)
            self._keep_order(limit, one, following)
            one.complete(self.refusal(trunk, limit, None, one.left))
            self._promote(trunk, limit, following)
        target = self._cluster.ways.stream_now(trunk)
        for stream in () if trunk.beside is None else (trunk, *trunk.beside.lanes.values()):
            if stream is not target and stream.limit is not None:
                stream.limit.ring.leave(CLIENTS)
        if target.is_home and target.limit is not None:
            if count := len(queue):
                target.limit.ring.join(CLIENTS, count)
                if target is not trunk:
                    self._turns.serve(target)
        else:
            while len(queue) and self._admission.passes(trunk, limit, 1) and self.release(trunk, queue):
                pass
        self._tell_waiting(target, queue)
        if not len(queue) and limit.queue is queue:
            limit.queue = None

    def tidy(self, trunk: Topic, target: TopicLimit) -> None:
        """A client has had its turn: update the number of turns to the clients that wait now."""
        limit = trunk.limit
        queue = None if limit is None else limit.queue
        if limit is not None and queue is not None and not len(queue):
            limit.queue = queue = None
        if queue is None:
            target.ring.leave(CLIENTS)
        elif CLIENTS in target.ring:
            target.ring.join(CLIENTS, len(queue))

    def release(self, trunk: Topic, queue: ClientQueue) -> bool:
        """Send one message of the connection whose turn it is."""
        one = queue.first()
        target = self._cluster.ways.stream_now(trunk)
        has_older = target.stream is not None and () in target.stream.admission.waiting
        if one is None or (target.is_home and has_older):
            return False
        queue.turns.turn_over()
        is_sent = self._send(trunk, one)
        if not one.left or not is_sent:
            following = self._dequeue(queue, one)
            if trunk.limit is not None:
                trunk.limit.note_delay(self._tokens.now() - one.came_at)
                self._promote(trunk, trunk.limit, following)
        else:
            queue.begun(one)
        return is_sent

    def _send(self, trunk: Topic, one: PendingPublish) -> bool:
        """Send the command's next message; False if there is no room for it."""
        if self._is_direct(trunk, one):
            return self._number(trunk, one)
        payload, after = one.payloads[one.sent], () if one.sent else one.after
        # Count the message for its own connection, not for the one that published last.
        latest, trunk.publisher = trunk.publisher, one.session
        try:
            is_taken = self._cluster.ways.admit(trunk, (payload,), after)
        finally:
            trunk.publisher = latest
        if not is_taken:
            one.complete(error(NO_ROOM))
            return False
        one.sent += 1
        if isinstance(one.reply, PositionedReply):
            self._cluster.receipts.when_acked(trunk, 1, one.reply.acked)
            if not one.left:
                self._core.shell.call_later(REPLY_S, one.reply.expire)
        elif not one.left:
            self._answer(one, self._cluster.ways.answer(trunk, 1))
        return True

    def _is_direct(self, trunk: Topic, one: PendingPublish) -> bool:
        """Whether the message can be numbered directly: no message is in flight, and the topic's reply applies."""
        if trunk.stream is not None or trunk.limit is None or trunk.content is not None:
            return False
        return not one.after and not isinstance(one.reply, PositionedReply)

    def _number(self, trunk: Topic, one: PendingPublish) -> bool:
        """Like `admit` and `answer`, without tracking messages in flight, which is half of the work per token."""
        assert trunk.limit is not None, "its turn has come by a token"
        self._tokens.spend(trunk.limit, 1)
        reply = self.publish(trunk, (one.payloads[one.sent],))
        one.sent += 1
        if not one.left:
            one.complete(reply)
        return True

    def _answer(self, one: PendingPublish, answer: bytes | Reply) -> None:
        """The command's last message was sent: reply now, or when the message has its position."""
        if isinstance(answer, bytes):
            one.complete(answer)
            return

        def ready() -> None:
            one.complete(b"".join(answer.pieces or ()))

        answer.owe(ready, self._core.now(), is_muted=False)
        if answer.pieces is not None:
            ready()
        self._core.shell.call_later(REPLY_S, answer.expire)

    def _tell_waiting(self, target: Topic, queue: ClientQueue) -> None:
        """Report the number of waiting connections to the home, if it has doubled or halved."""
        home = "" if target.is_home or target.stream is None else target.stream.peer or ""
        count, reported = len(queue), queue.reported if queue.reported_to == home else 0
        if home and (count >= 2 * reported or 2 * count <= reported) and count != reported:
            queue.reported, queue.reported_to = count, home
            self._cluster.tell(home, WaitingFrame(target.key, count))
