"""Commands on logs among hubs that restart under their names: replies reach only the incarnation that asked."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.link.log_frames import AnswerFrame, CallFrame
from equipoise.hub.cluster.log_calls import LogCalls
from equipoise.hub.cluster.log_queue import CallQueue, WaitingCall
from equipoise.hub.logs.log_request import LogRequest, pack_requests
from hub.cluster.hubs import Hubs

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
