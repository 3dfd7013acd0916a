"""Logs without a hub: commands in, replies out, everything committed at once and folded a second time."""

from __future__ import annotations

from collections import defaultdict

from equipoise.log.call import LogCall
from equipoise.log.commands import LOG_COMMANDS
from equipoise.log.errors import LogCommandError
from equipoise.log.read import assemble, parse_read, resolve, serve
from equipoise.log.records import LogRecord, decode_run, encode_run
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import error, integer

_CONTAINERS = (b"xgroup", b"xinfo", b"eq.group")
_MANY_KEYS = (b"del", b"unlink", b"exists")


class Logs:
    """All logs of a server, by key. Reads do not wait."""

    def __init__(self, proto: int = 2) -> None:
        self.logs: defaultdict[bytes, TopicLog] = defaultdict(TopicLog)
        # By key, what was appended, as it is stored.
        self.stored: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.proto = proto
        self.now_ms = 1_700_000_000_000

    def run(self, *words: bytes | str | int) -> bytes:
        command = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        try:
            reply = self._run(command)
        except LogCommandError as problem:
            reply = error(problem.text)
        for key, log in self.logs.items():
            if log.has_changes:
                self.stored[key].append(encode_run(log.take_changes()))
        return reply

    def _run(self, command: list[bytes]) -> bytes:
        name = command[0].lower()
        if name in (b"xread", b"xreadgroup", b"eq.readgroup"):
            return self._read(command)
        call = LogCall(command, self.now_ms, self.proto)
        if name in _MANY_KEYS:
            run = LOG_COMMANDS[name.decode()]
            replies = [run(self.logs[key], LogCall([name, key], self.now_ms)) for key in command[1:]]
            return integer(sum(int(reply[1:]) for reply in replies))
        if name in _CONTAINERS:
            return LOG_COMMANDS[f"{name.decode()}|{command[1].decode().lower()}"](self.logs[command[2]], call)
        return LOG_COMMANDS[name.decode()](self.logs[command[1]], call)

    def _read(self, command: list[bytes]) -> bytes:
        read = parse_read(command)
        pairs = list(zip(read.keys, read.starts, strict=True))
        for key, start in pairs:
            resolve(self.logs[key], read, key, start)
        parts = []
        for key, _ in pairs:
            pieces = serve(self.logs[key], read, key, self.now_ms, self.proto)
            if pieces is not None:
                parts.append((key, pieces))
        return assemble(parts, self.proto)

    def folded(self, key: bytes) -> TopicLog:
        """The log as another hub would read it."""
        log = TopicLog()
        for data in self.stored[key]:
            log.apply_all(decode_run(data, "test"))
        return log

    def records(self, key: bytes) -> list[LogRecord]:
        return [record for data in self.stored[key] for record in decode_run(data, "test")]
