"""EQ.RESUME: subscribe to a durable topic from a position, after a reconnection.

The hub requests the messages after that position from the owner of the log, confirms the subscription like
EQ.SUBSCRIBE, with that position, and sends them before later messages. Messages that the log no longer has, or beyond
REPLAY_BYTES, appear as a gap.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from equipoise.hub.commands.connection import NEEDS_RESP3
from equipoise.hub.commands.spec import CommandSpec
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.subscribe import objection, subscribe
from equipoise.hub.logs.log_request import SINCE, LogRequest, unpack_since
from equipoise.resp.replies import positioned_encoder
from equipoise.resp.requests import parse_integer
from equipoise.stream.position import DURABLE_EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["resume", "spec"]

# Most bytes of past messages sent to one subscriber, the latest ones. Durable subscribers get all, at their own pace.
REPLAY_BYTES = 8 * 1024 * 1024
# Delay before a read of the log is retried, in seconds.
_AGAIN_S = 0.1
# Most reads to catch up with messages that arrive meanwhile: they never succeed if the log was lost and restarted.
_TRIES_MAX = 100
_KIND = Kind.POSITIONED_NAME


def resume(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """Subscribe after a position; like EQ.SUBSCRIBE if the topic is not durable."""
    if session.proto != 3:
        return NEEDS_RESP3
    name, n = command[1], parse_integer(command[2])
    if n is None or n < 0:
        return "ERR n is the number of a message"
    problem = objection(core, session, _KIND, [name])
    if problem is not None:
        return problem
    return _Resumption(core, session, name, n).begin()


def spec() -> CommandSpec:
    return CommandSpec(
        name="eq.resume",
        arity=3,
        run=resume,
        summary="Subscribes to a durable topic, starting after a position.",
        since="0.1.0",
        group="pubsub",
        flags=("pubsub", "noscript", "loading", "stale"),
        categories=("@pubsub", "@slow"),
        runs_while_subscribed=True,
    )


class _Resumption:
    """One resumption in progress."""

    def __init__(self, core: HubCore, session: Session, name: bytes, since: int) -> None:
        self._core = core
        self._session = session
        self._name = name
        self._since = since
        self._reached = since
        self._messages: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._tries = _TRIES_MAX
        self._reply = Reply()

    def begin(self) -> Reply:
        self._when_ready(self._read)
        return self._reply

    def _when_ready(self, call: Callable[[], object]) -> None:
        """Call once a subscription would miss no later message."""

        def proceed() -> bytes:
            call()
            return b""

        ready = self._core.cluster.subscriptions.when_ready(self._session, _KIND, [self._name], proceed)
        if isinstance(ready, Reply):
            self._reply.when_abandoned(ready.forget)

    def _read(self) -> None:
        """The spec of the topic is known: if it is durable, read the past messages from the log."""
        logs, topic = self._core.logs, self._core.index.topics.get(self._name)
        if not self._reply.is_wanted:
            return
        if topic is None or topic.log is None or logs is None:
            self._when_ready(lambda: self._finish(None))
            return
        request = LogRequest(SINCE, [b"eq.since", self._name, b"%d" % self._reached])
        _then(logs.submit(self._name, request), self._got)

    def _got(self, data: bytes) -> None:
        found = unpack_since(data)
        if found is None:
            self._core.shell.call_later(_AGAIN_S, self._read)
            return
        self._keep(found.messages)
        self._reached = max(self._reached, found.reaches)
        self._when_ready(self._go_on)

    def _go_on(self) -> None:
        """The hub follows the topic: subscribe, unless its subscribers have received more messages meanwhile."""
        topic = self._core.index.topics.get(self._name)
        self._tries -= 1
        if topic is not None and self._reached < topic.n and self._tries > 0:
            self._read()
        else:
            self._finish(self._since)

    def _keep(self, messages: list[tuple[int, bytes]]) -> None:
        self._messages += messages
        self._bytes += sum(len(payload) for _, payload in messages)
        while self._bytes > REPLAY_BYTES:
            self._bytes -= len(self._messages.popleft()[1])

    def _finish(self, since: int | None) -> None:
        """Subscribe after `since`; None: from the current position."""
        if not self._reply.is_wanted:
            return
        problem = subscribe(self._core, self._session, _KIND, [self._name], since=since)
        if problem is not None:
            self._reply.complete(self._core.refuse(problem))
            return
        if since is not None:
            self._send()
        if self._session.redirected is not None:
            self._core.cluster.redirects.subscribed(self._session, [self._name])
        self._reply.complete(b"")

    def _send(self) -> None:
        """Push the messages that the topic's subscribers have received up to now."""
        topic = self._core.index.topics[self._name]
        encode = positioned_encoder(DURABLE_EPOCH, _KIND.message, self._name)
        for n, payload in self._messages:
            if self._since < n <= topic.n:
                self._session.push(encode(n, [payload]))


def _then(outcome: bytes | Reply, call: Callable[[bytes], object]) -> None:
    """Pass the reply to `call` once it is complete."""
    if isinstance(outcome, bytes):
        call(outcome)
        return
    outcome.owe(lambda: call(b"".join(outcome.pieces or ())), 0.0, is_muted=False)
    if outcome.pieces is not None:
        call(b"".join(outcome.pieces))
