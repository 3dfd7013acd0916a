"""Answer one client of a gateway: bytes in, bytes out. Pure.

A gateway knows EQ.WHERE, PING, HELLO, CLIENT and QUIT. What a client tells of itself with EQ.WHERE is of no use here.

Always true: what is kept of a client is at most one unfinished request, of some kilobytes.
"""

from __future__ import annotations

from collections.abc import Callable

from equipoise.coordinates import Coordinate
from equipoise.resp import Command, Publishes, RequestLimits, RequestReader
from equipoise.resp.replies import OK, PONG, bulk, error, null, value

__all__ = ["GatewaySession"]

# EQ.WHERE with both arguments is the longest that makes sense, HELLO with a login what stock clients begin with.
_LIMITS = RequestLimits(args_max=16, payload_bytes_max=512, header_bytes_max=64, inline_bytes_max=512)
# As many words of that length.
_INPUT_BYTES_MAX = 16 * 1024
_KNOWN = "a gateway knows EQ.WHERE, PING, HELLO and QUIT; publish and subscribe at a hub"


class GatewaySession:
    """Owned by one connection. `is_over`: nothing more is answered, the connection is to be closed."""

    __slots__ = ("_proto", "_reader", "_where", "is_over")

    def __init__(self, where: Callable[[], Coordinate | None]) -> None:
        """`where` says where the gateway is, if it knows."""
        self._where = where
        self._reader = RequestReader(_LIMITS)
        self._proto = 2
        self.is_over = False

    def receive(self, data: bytes) -> bytes:
        """What to answer to the bytes that have come."""
        reader, answers = self._reader, []
        while True:
            for words in _commands(reader.feed(data)):
                answers.append(self._answer(words))
                if self.is_over:
                    return b"".join(answers)
            if not reader.has_more:
                break
            data = b""
        problem = reader.error
        if reader.buffered_bytes > _INPUT_BYTES_MAX:
            problem = "Protocol error: request larger than the input limit"
        if problem is not None:
            self.is_over = True
            answers.append(error(f"ERR {problem}"))
        return b"".join(answers)

    def _answer(self, words: Command) -> bytes:
        match [words[0].upper(), *words[1:]]:
            case [b"EQ.WHERE"] | [b"EQ.WHERE", _, _]:
                at = self._where()
                return null(self._proto) if at is None else bulk(at.to_bytes())
            case [b"EQ.WHERE", *_]:
                return error("ERR wrong number of arguments for 'eq.where' command")
            case [b"PING"]:
                return PONG
            case [b"PING", message]:
                return bulk(message)
            case [b"HELLO", *rest]:
                return self._hello(rest)
            case [b"CLIENT", *_]:
                # Names of clients and libraries: nobody here reads them, and stock clients want an answer.
                return OK
            case [b"QUIT", *_]:
                self.is_over = True
                return OK
        name = words[0][:64].decode("utf-8", "replace")
        return error(f"ERR unknown command '{name}'; {_KNOWN}")

    def _hello(self, rest: list[bytes]) -> bytes:
        if rest and rest[0] not in (b"2", b"3"):
            return error("NOPROTO unsupported protocol version")
        if any(word.upper() == b"AUTH" for word in rest):
            return error("ERR a gateway has no users; leave the login out")
        self._proto = int(rest[0]) if rest else self._proto
        told = {"server": "equipoise-gateway", "proto": self._proto, "role": "gateway"}
        return value(told, self._proto)  # type: ignore[arg-type]  # a dict of values is a value


def _commands(fed: Publishes | list[Command]) -> list[Command]:
    if isinstance(fed, Publishes):
        return [[b"PUBLISH"] for _ in fed.topics]
    return fed
