"""EQ.RESUME: subscribe to a durable topic from a position, after a reconnection.

The hub asks the owner of the log for the messages behind that position, confirms the subscription as EQ.SUBSCRIBE does,
with that position, and sends them ahead of those that come then. What the log does not keep, and what is more than
REPLAY_BYTES, shows as a hole.
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

# What one subscriber is sent of the past: the latest of it. Durable subscribers get everything, at their own pace.
REPLAY_BYTES = 8 * 1024 * 1024
# How soon a log that does not answer is asked again, in seconds.
_AGAIN_S = 0.1
# How often what has come meanwhile is asked for: in vain where the log was lost and begun anew.
_TRIES_MAX = 100
_KIND = Kind.POSITIONED_NAME


def resume(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """As EQ.SUBSCRIBE where the topic is not durable."""
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
    """One subscription on its way."""

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
        """Call once a subscription misses nothing from then on."""

        def proceed() -> bytes:
            call()
            return b""

        ready = self._core.cluster.listening.when_ready(self._session, _KIND, [self._name], proceed)
        if isinstance(ready, Reply):
            self._reply.when_abandoned(ready.forget)

    def _read(self) -> None:
        """The hub knows whether the topic is durable: then what has gone by is in the log."""
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
        """The hub follows the topic, still or again: subscribe, unless its subscribers have got more meanwhile."""
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
        """Subscribe; None: from now on."""
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
        """What the topic has sent its subscribers up to now."""
        topic = self._core.index.topics[self._name]
        encode = positioned_encoder(DURABLE_EPOCH, _KIND.message, self._name)
        for n, payload in self._messages:
            if self._since < n <= topic.n:
                self._session.push(encode(n, [payload]))


def _then(outcome: bytes | Reply, call: Callable[[bytes], object]) -> None:
    """Call with the reply, once it is complete."""
    if isinstance(outcome, bytes):
        call(outcome)
        return
    outcome.owe(lambda: call(b"".join(outcome.pieces or ())), 0.0, is_muted=False)
    if outcome.pieces is not None:
        call(b"".join(outcome.pieces))
