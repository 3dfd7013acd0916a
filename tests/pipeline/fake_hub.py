"""A hub that implements EQ.TELEMETRY only, in a thread: it replies from a list, and fails on request."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import hiredis
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.resp.replies import array, bulk, error, integer, simple
from equipoise.telemetry import arrow_schema

SECOND_US = 1_000_000


class FakeHub:
    """Records are dicts by column; `hub`, `incarnation` and `sequence` are filled in unless given."""

    def __init__(self, name: str, incarnation: int = 1, *, secret: str = "") -> None:
        self.name = name
        self.incarnation = incarnation
        self.secret = secret
        self.records: list[dict[str, Any]] = []
        # Sequences before this one have fallen out.
        self.oldest = 0
        # Given out in one piece, whatever the question allows.
        self.piece_records = 1_000
        # Cleared: it accepts requests and does not reply.
        self.answers = threading.Event()
        self.answers.set()
        # Sent in place of the Arrow stream.
        self.garbage: bytes | None = None
        self.asked = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def listed(self) -> str:
        return f"{self.name}=127.0.0.1:{self.port}"

    def add(self, *records: Mapping[str, Any]) -> None:
        for record in records:
            own = {"hub": self.name, "incarnation": self.incarnation, "sequence": len(self.records)}
            self.records.append(own | dict(record))

    def restart(self) -> None:
        """Under the same name and address, with nothing remembered."""
        self.incarnation += 1
        self.records, self.oldest = [], 0

    def answer(self, words: list[bytes]) -> bytes:
        self.asked += 1
        incarnation, sequence, bytes_max = (int(word) for word in words[1:])
        end = len(self.records)
        if incarnation != self.incarnation:
            return self._reply(self.oldest, self.oldest, b"", end)
        if sequence > end:
            return error(f"ERR there is no record {sequence} yet; continue from {end}")
        first = max(sequence, self.oldest)
        following = min(first + self.piece_records, end) if bytes_max else first
        stream = self.garbage if self.garbage is not None else encoded(self.records[first:following])
        return self._reply(first, following, stream, end)

    def _reply(self, first: int, following: int, stream: bytes, end: int) -> bytes:
        numbers = [integer(number) for number in (self.incarnation, first, following)]
        return array([*numbers, bulk(stream), integer(end)])

    def close(self) -> None:
        """As if killed. May be called twice."""
        self.answers.set()
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encoded(records: Iterable[Mapping[str, Any]]) -> bytes:
    """As an Arrow IPC stream. `time` may be a number of microseconds."""
    table = pa.Table.from_pylist([dict(record) for record in records], schema=arrow_schema())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    hub: FakeHub


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        hub, connection = self.server.hub, self.request
        assert isinstance(connection, socket.socket)
        reader = hiredis.Reader(notEnoughData=False)
        is_known = not hub.secret
        while True:
            try:
                while (words := reader.gets()) is False:
                    if not (data := connection.recv(65_536)):
                        return
                    reader.feed(data)
                hub.answers.wait()
                if words[0] == b"AUTH":
                    is_known = words[2] == hub.secret.encode()
                    connection.sendall(
                        simple("OK") if is_known else error("WRONGPASS no such user or secret")
                    )
                elif not is_known:
                    connection.sendall(error("NOAUTH log in first"))
                else:
                    connection.sendall(hub.answer(words))
            except OSError:
                return
