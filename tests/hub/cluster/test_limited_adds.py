"""XADDs to topics with a rate limit: they take tokens of the bucket that messages take."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from equipoise.hub.client_limits import Limits
from equipoise.hub.logs.hub_logs import HubLogs
from equipoise.hub.logs.limited_adds import LimitedAdds
from equipoise.hub.logs.live_log import LiveLog
from equipoise.hub.shell.log_opener import FoundLog
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum
from equipoise.log.topic_log import TopicLog
from hub.cluster.hubs import Hubs
from hub.cluster.test_rate_limits import fill, limited, pass_time
from hub.world import FakeClient, pipeline


class LoggingHub:
    """A hub of a cluster with logs in memory, and topics `x*` limited to 10/s in bursts of 2."""

    def __init__(self, **options: Any) -> None:
        self.hubs: Hubs = limited("h1", **options)
        self.node = self.hubs["h1"]
        self._confirmations: deque[Callable[[], None]] = deque()
        # Logs that wait to be opened; None: they are opened at once.
        self.opening: list[LiveLog] | None = None
        self._ledgers = MemoryLedgers(self._confirmations.append)
        self.node.core.logs = HubLogs(
            self.node.shell, self._open, may_ack=lambda: True, committed=lambda log, records: None
        )
        self.node.core.logs.limited = LimitedAdds(self.node.core)

    def _open(self, live: LiveLog) -> None:
        if self.opening is None:
            self.open_now(live)
        else:
            self.opening.append(live)

    def open_now(self, live: LiveLog) -> None:
        ledger = asyncio.run(self._ledgers.create(live.name, 1, Quorum(1, 1, 1)))
        self.node.shell.call_later(0, live.opened, FoundLog(TopicLog(), ledger, 1))

    def replies(self, client: FakeClient, commands: list[list[str]]) -> list[Any]:
        client.send_raw(pipeline(commands))
        for _ in range(3):
            self.node.advance()
            while self._confirmations:
                self._confirmations.popleft()()
        return client.read()

    def counts(self, replies: list[Any]) -> tuple[int, int]:
        """Commands that were executed, and that were rejected for lack of a token."""
        rejected = [reply for reply in replies if isinstance(reply, str) and reply.startswith("LIMITED x ")]
        return len(replies) - len(rejected), len(rejected)


ADD = ["XADD", "x", "*", "a", "1"]


def with_tokens() -> LoggingHub:
    hub = LoggingHub()
    fill(hub.node)
    return hub


def test_an_add_without_a_token_is_rejected_and_adds_nothing() -> None:
    hub = with_tokens()
    client = hub.node.client()
    assert hub.counts(hub.replies(client, [ADD] * 5)) == (2, 3)
    assert hub.replies(client, [["XLEN", "x"]]) == [2]
    pass_time(hub.hubs, 0.1)
    assert hub.counts(hub.replies(client, [ADD] * 5)) == (1, 4)
    limit = hub.node.core.index.topics[b"x"].limit
    assert limit is not None
    assert (limit.admitted, limit.refused) == (3, 7)


def test_adds_and_messages_share_the_bucket() -> None:
    hub = with_tokens()
    client = hub.node.client()
    assert hub.replies(client, [["PUBLISH", "x", "m"], ["PUBLISH", "x", "m"]]) == [0, 0]
    assert hub.counts(hub.replies(client, [ADD])) == (0, 1)


def test_adds_get_tokens_though_messages_always_wait() -> None:
    """Publishers wait for every token before it comes. Clients of XADD retry at the time in the error."""
    hub = with_tokens()
    publishers = [hub.node.client() for _ in range(2)]
    adder = hub.node.client()
    hub.replies(adder, [ADD] * 2)
    added = 0
    for _ in range(60):
        for publisher in publishers:
            publisher.send("PUBLISH", "x", "m")
        pass_time(hub.hubs, 0.05)
        added += hub.counts(hub.replies(adder, [ADD]))[0]
    published = sum(len([reply for reply in publisher.read() if reply == 0]) for publisher in publishers)
    # Thirty tokens in three seconds for three parties.
    assert added >= 5
    assert published >= 15


def test_adds_in_a_transaction_take_a_token_each() -> None:
    hub = with_tokens()
    client = hub.node.client()
    *_, executed = hub.replies(client, [["MULTI"], ADD, ADD, ADD, ["EXEC"]])
    assert hub.counts(executed) == (2, 1)


def test_adds_of_many_clients_in_one_turn_take_a_token_each() -> None:
    hub = with_tokens()
    clients = [hub.node.client() for _ in range(4)]
    for client in clients:
        client.send(*ADD)
    replies = [reply for client in clients for reply in hub.replies(client, [["PING"]])]
    assert hub.counts(replies) == (2 + len(clients), 2)


def test_adds_that_waited_for_the_log_take_their_tokens_when_they_are_run() -> None:
    hub = with_tokens()
    hub.opening, clients = [], []
    for _ in range(3):
        for _ in range(2):
            client = hub.node.client()
            client.send(*ADD)
            clients.append(client)
        # Long enough for two more tokens.
        pass_time(hub.hubs, 0.2)
    hub.open_now(*hub.opening)
    replies = [reply for client in clients for reply in hub.replies(client, [["PING"]])]
    assert hub.counts(replies) == (2 + len(clients), 4)
    assert hub.replies(clients[0], [["XLEN", "x"]]) == [2]


def test_other_topics_and_commands_need_no_token() -> None:
    hub = with_tokens()
    client = hub.node.client()
    assert hub.counts(hub.replies(client, [["XADD", "y", "*", "a", "1"]] * 9)) == (9, 0)
    assert hub.counts(hub.replies(client, [ADD] * 3)) == (2, 1)
    assert hub.replies(client, [["XLEN", "x"], ["XTRIM", "x", "MAXLEN", "0"]]) == [2, 2]


def test_a_hub_without_room_for_the_topic_rejects_the_add() -> None:
    hub = LoggingHub(limits={"h1": Limits(topics_max=1)})
    client = hub.node.client()
    client.do("SUBSCRIBE", "in-use")
    other = hub.node.client()
    (reply,) = hub.replies(other, [ADD])
    assert "topics_max" in str(reply)
