"""Commands on logs among hubs that restart under their names: replies reach only the incarnation that asked."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.link.log_frames import AnswerFrame, CallFrame
from equipoise.hub.cluster.log_calls import LogCalls
from equipoise.hub.cluster.log_queue import CallQueue, WaitingCall
from equipoise.hub.logs.log_request import LogRequest, pack_requests
from hub.cluster.hubs import Hubs
from hub.cluster.test_limited_adds import LoggingHub
from hub.cluster.test_rate_limits import pass_time

TICKET = 5


@pytest.mark.parametrize("has_restarted", [False, True])
def test_a_late_reply_does_not_reach_the_next_incarnation_of_the_hub(
    monkeypatch: pytest.MonkeyPatch, *, has_restarted: bool
) -> None:
    """
    1. h2 asks h1, the owner of a log, to run a command. The command waits for its quorum.
    2. h2 restarts. Its tickets start again at 1, so it may have another command of that number in flight, even at h1.
    """
    hubs = Hubs("h1", "h2", "h3")
    cluster, running = hubs["h1"].cluster, list[WaitingCall]()
    requests = pack_requests([LogRequest("xlen", [b"XLEN", b"t"])])
    with monkeypatch.context() as patch:
        patch.setattr(LogCalls, "_logs", object())
        patch.setattr(cluster.calls, "is_home", lambda key: True)
        patch.setattr(cluster.calls, "_put", lambda key, call: running.append(call))
        cluster.calls.called("h2", CallFrame(b"t", TICKET, 1_000, requests))
    link = cluster.out["h2"]
    if has_restarted:
        hubs.kill("h2")
        former, link = link, OutLink("h2", link.incarnation + 1, 1 << 20, lambda link: None)
        link.capabilities, cluster.out["h2"] = former.capabilities, link
    before = link.end
    running[0].tell([b":1\r\n"])
    assert (link.end > before) is not has_restarted


def test_a_reply_of_another_hub_than_the_requested_one_is_ignored() -> None:
    """A hub that this one asked in its former life has the number of another question."""
    calls = Hubs("h1", "h2", "h3")["h1"].cluster.calls
    queue = calls._queues[b"t"] = CallQueue()
    queue.peer, queue.ticket = "h2", TICKET
    calls._asked[TICKET] = b"t", []
    calls.answered("h3", AnswerFrame(TICKET, True, [b""]))
    assert TICKET in calls._asked
    calls.answered("h2", AnswerFrame(TICKET, True, [b""]))
    assert TICKET not in calls._asked


def test_commands_that_wait_for_their_log_are_not_looked_at_until_it_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a hub that opens the logs of a dead one spends its time looking at them."""
    hub, looks = LoggingHub(), list[bytes]()
    calls, hub.opening = hub.node.cluster.calls, []
    assert hub.node.core.logs is not None
    hub.node.core.logs.elsewhere, drain = calls, calls._drain

    def watched(key: bytes) -> None:
        looks.append(key)
        drain(key)

    monkeypatch.setattr(calls, "_drain", watched)
    client = hub.node.client()
    client.send("XADD", "y", "*", "a", "1")
    for _ in range(20):
        pass_time(hub.hubs, 0.1)
    assert looks == [b"y"]
    hub.open_now(*hub.opening)
    (added, length) = hub.replies(client, [["XLEN", "y"]])
    assert "-" in str(added) and length == 1
