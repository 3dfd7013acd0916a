"""Commands on logs, sent to any hub that replies, and retried while a topic changes its owner.

Every hub serves every log, so one connection suffices; if it breaks, the next hub is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from equipoise.errors import DisconnectedError, ProtocolError, RefusedError
from equipoise.log.ids import ID_MIN, EntryId
from equipoise.pipeline.source.hub_connection import Door, HubConnection
from equipoise.pipeline.source.hub_directory import HubDirectory, is_store_url, open_directory
from equipoise.pipeline.topic_settings import HubAccess
from equipoise.pipeline.topics.positions import LogSteps, spelled, to_id

__all__ = ["Entry", "HubCalls", "doors_of", "is_passing", "open_hubs"]

# Delay between two attempts.
_RETRY_S = 0.1
# Limit of one reply: a page of entries is at most 8 MiB, one entry at most 4.
_REPLY_BYTES_MAX = 16 * 1024 * 1024
# Entries per request.
_PAGE = 5_000
# Time-out of one reply, before the next hub is used.
_ANSWER_S = 10.0

# An id, and fields and values in turn.
Entry = tuple[bytes, list[bytes]]


def is_passing(refusal: RefusedError) -> bool:
    """Whether a repeated command may succeed."""
    return refusal.code in ("TRYAGAIN", "UNCERTAIN", "LOADING")


def open_hubs(access: HubAccess) -> HubDirectory:
    """Raises AddressError."""
    text = access.hubs
    if not is_store_url(text):
        listed = enumerate(item.strip() for item in text.split(",") if item.strip())
        text = ",".join(item if "=" in item else f"hub{number}={item}" for number, item in listed)
    return open_directory(text, access.region)


def doors_of(hubs: HubDirectory, access: HubAccess) -> list[Door]:
    """The addresses of all live hubs. Raises DisconnectedError if they are unknown."""
    known = hubs.hubs(access.timeout_s)
    if not known:
        raise DisconnectedError(f"no hub is known at {access.hubs} within {access.timeout_s:g} s")
    timeout_s = min(_ANSWER_S, access.timeout_s)
    return [
        Door(hub.host, hub.port, access.user, access.secret, access.tls_ca, timeout_s)
        for hub in known.values()
        if hub.is_alive
    ]


class HubCalls:
    """Owned by one reader or task. `doors` is called again when a connection breaks."""

    def __init__(self, doors: Callable[[], Sequence[Door]], timeout_s: float) -> None:
        self._doors = doors
        self._timeout_s = timeout_s
        self._connection: HubConnection | None = None
        # Connections that broke so far: they determine the next hub.
        self._turn = 0

    def call(self, requests: Sequence[Sequence[bytes]]) -> list[object]:
        """The replies to some commands; a RefusedError in place of a refused one's. Raises DisconnectedError.

        Without retries: after a broken connection the outcome is unknown. The next call uses another connection.
        """
        if self._connection is None:
            doors = self._doors()
            if not doors:
                raise DisconnectedError("no hub is alive")
            self._connection = HubConnection(doors[self._turn % len(doors)])
        try:
            return self._connection.call(requests, _REPLY_BYTES_MAX * len(requests))
        except DisconnectedError:
            self.close()
            self._turn += 1
            raise

    def ask(self, *words: bytes) -> object:
        """The reply to a read-only command, retried until there is a reply or the time is up.

        Raises RefusedError, DisconnectedError.
        """
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                (reply,) = self.call([words])
                if not isinstance(reply, RefusedError):
                    return reply
                if not is_passing(reply) or time.monotonic() >= deadline:
                    raise reply
            except DisconnectedError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_RETRY_S)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Commands on logs.

    def names(self, pattern: str) -> list[str]:
        """Topics that match, and have or had a log; without those whose names are not text."""
        found: list[str] = []
        cursor = b"0"
        while True:
            match self.ask(b"EQ.LOGS", cursor, b"MATCH", pattern.encode()):
                case [bytes(following), list(names)]:
                    for name in names:
                        try:
                            found.append(name.decode())
                        except UnicodeDecodeError:
                            continue
                case other:
                    raise ProtocolError(f"invalid reply to EQ.LOGS: {other!r}")
            if following == b"0":
                return sorted(found)
            cursor = following

    def steps(self, topic: str, after: EntryId = ID_MIN, step: int = 0, limit: int = 0) -> LogSteps:
        words = (topic.encode(), spelled(after).encode(), b"%d" % step, b"%d" % limit)
        match self.ask(b"EQ.STEPS", *words):
            case [int(added), bytes(last), int(behind), list(ids)]:
                return LogSteps(added, to_id(last.decode()), behind, tuple(to_id(at.decode()) for at in ids))
            case other:
                raise ProtocolError(f"invalid reply to EQ.STEPS: {other!r}")

    def pages(self, topic: str, after: EntryId, until: EntryId) -> Iterator[list[Entry]]:
        """The entries behind one id up to another, page by page."""
        end = spelled(until).encode()
        while after < until:
            start = b"(" + spelled(after).encode()
            page = self.ask(b"XRANGE", topic.encode(), start, end, b"COUNT", b"%d" % _PAGE)
            if not isinstance(page, list):
                raise ProtocolError(f"invalid reply to XRANGE: {page!r}")
            if not page:
                return
            yield page
            after = to_id(page[-1][0].decode())
