"""Wake a blocking read when an open log has new entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.log.ids import after, parse_id

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.logs.live_log import LiveLog
    from equipoise.log.topic_log import TopicLog

__all__ = ["has_news", "watch_log"]


def watch_log(
    live: LiveLog, since: bytes, group: bytes | None, wake: Callable[[], None], shell: Shell
) -> Callable[[], None]:
    """Call `wake` once, later, when there may be something to read, or the log moves. Returns a function to cancel."""
    watcher = object()

    def check() -> None:
        now_ms = int(shell.wall_time() * 1_000)
        if live.is_sealing or has_news(live.log, since, group, now_ms):
            live.readers.pop(watcher, None)
            wake()

    live.readers[watcher] = check
    shell.call_later(0, lambda: check() if watcher in live.readers else None)

    def end() -> None:
        live.readers.pop(watcher, None)

    return end


def has_news(log: TopicLog, since: bytes, group: bytes | None, now_ms: int) -> bool:
    """Whether a read would find an entry, or fail because its group was deleted."""
    at = parse_id(since) if group is None else None
    if group is not None:
        known = log.groups.get(group)
        if known is None or since != b">":
            return True
        due_ms = known.next_due_ms()
        if due_ms is not None and due_ms <= now_ms:
            return True
        at = known.last
    assert at is not None, "the id of the group or of the read"
    start = after(at)
    return start is not None and log.last > at and next(log.entries.range(start), None) is not None
