"""Run a dialogue with a server: compare its replies with a transcript, or write them into one.

Playing waits for exactly the bytes that are expected, and at the end of a dialogue for the server to close
every connection, so that a byte too many is seen as surely as one too few. Recording cannot know what to wait
for: it waits for silence, which is why recording is not a test.
"""

from __future__ import annotations

import selectors
import socket
from types import TracebackType

from conformance.transcript import Dialogue, Expectation, Matcher, Step, escape, unescape

ANSWER_TIMEOUT_S = 5.0
SILENCE_S = 0.06
_END = b"\r\n"


class MismatchError(AssertionError):
    """A reply differs from the transcript."""


class Connection:
    """One socket, with received bytes that were not read yet."""

    def __init__(self, who: str, address: tuple[str, int], chunk_bytes: int | None = None) -> None:
        self.who = who
        self._chunk_bytes = chunk_bytes
        self.socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.is_ended = False

    def send(self, data: bytes) -> None:
        step = self._chunk_bytes or len(data)
        try:
            for start in range(0, len(data), step):
                self.socket.sendall(data[start : start + step])
        except (BrokenPipeError, ConnectionResetError):
            # The server has closed already, in the middle of a rejected command; its last reply is still to be read.
            pass

    def receive(self) -> bool:
        """Read what there is; False once the server has closed."""
        if self.is_ended:
            return False
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        except TimeoutError:
            raise MismatchError(f"{self.who}: nothing more within {ANSWER_TIMEOUT_S:g} s") from None
        self.is_ended = not data
        self.buffer += data
        return not self.is_ended

    def line(self) -> bytes:
        while _END not in self.buffer:
            if not self.receive():
                raise MismatchError(f"{self.who}: closed by the server, after {self.buffer!r}")
        line, _, self.buffer = self.buffer.partition(_END)
        return line

    def answer(self) -> list[bytes]:
        """The lines of one whole answer of the protocol, nested ones included."""
        lines = [self.line()]
        kind, rest = lines[0][:1], lines[0][1:]
        if kind in b"$=!" and rest != b"-1":
            # The payload may hold line ends of its own: lines count until its length is reached.
            left = int(rest) + len(_END)
            while left > 0:
                lines.append(self.line())
                left -= len(lines[-1]) + len(_END)
        elif kind in b"*~>%" and rest != b"-1":
            for _ in range(int(rest) * (2 if kind == b"%" else 1)):
                lines += self.answer()
        return lines

    def rest(self) -> bytes:
        """All that comes until the server closes."""
        while self.receive():
            pass
        rest, self.buffer = self.buffer, b""
        return rest

    def finish(self) -> bytes:
        """Close the connection; return unexpected input."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed by the server before us
        return self.rest()


class Player:
    """The connections of one dialogue. Use as a context manager: they are closed with it.

    With `chunk_bytes` everything is sent in pieces of that size.
    """

    def __init__(self, address: tuple[str, int], chunk_bytes: int | None = None) -> None:
        self._address = address
        self._chunk_bytes = chunk_bytes
        self._connections: dict[str, Connection] = {}
        self.matcher = Matcher()

    def __enter__(self) -> Player:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.socket.close()

    def play(self, dialogue: Dialogue, server: str) -> None:
        """Hold the dialogue; raise MismatchError at the first answer that is not what `server` should give."""
        for step in dialogue.steps:
            try:
                self._play_step(step, server)
            except MismatchError as error:
                raise MismatchError(f"{dialogue}\n  after {step.who}> {step.text[:200]}\n  {error}") from None
        for connection in self._connections.values():
            if rest := connection.finish():
                raise MismatchError(f"{dialogue}\n  {connection.who}: unexpected at the end: {rest!r}")

    def record(self, dialogue: Dialogue) -> None:
        """Run the dialogue and replace expected replies by received ones, keeping placeholders that still match."""
        for step in dialogue.steps:
            self._connection(step.who).send(step.payload(self.matcher.known))
            heard = self._listen()
            kept = [line for line in step.expected if line.server == "hub"]
            step.expected = self._merge(step, heard) + kept

    def _play_step(self, step: Step, server: str) -> None:
        self._connection(step.who).send(step.payload(self.matcher.known))
        for expected in step.of(server):
            connection = self._connection(expected.who)
            if expected.lines is None:
                if rest := connection.rest():
                    raise MismatchError(f"{expected.who}: expected to be closed, got {rest!r}")
            else:
                self._compare(connection, expected.lines)

    def _compare(self, connection: Connection, expected: tuple[str, ...]) -> None:
        """Read as many lines as expected; report all of them if one is wrong."""
        got: list[str] = []
        try:
            for line in expected:
                got.append(escape(connection.line()))
                if not self.matcher.matches(line, unescape(got[-1])):
                    raise MismatchError("")
        except MismatchError as error:
            rest = " ".join(map(repr, filter(None, (str(error), connection.buffer))))
            told = f"expected {' | '.join(expected)}\n  got      {' | '.join(got)}"
            raise MismatchError(f"{connection.who}: {told}  {rest}") from None

    def _merge(self, step: Step, heard: list[Expectation]) -> list[Expectation]:
        old = step.of("redis")
        kept: list[Expectation] = []
        for new in heard:
            before = next((answer for answer in old if answer.who == new.who), None)
            if before is not None:
                old.remove(before)
            kept.append(self._keep(before, new))
        return kept

    def _keep(self, old: Expectation | None, new: Expectation) -> Expectation:
        """The old answer if its placeholders allow the new one, else the new one."""
        if old is None:
            return new
        if old.lines is not None and new.lines is not None and len(old.lines) == len(new.lines):
            pairs = zip(old.lines, new.lines, strict=True)
            if all(self.matcher.matches(before, unescape(after)) for before, after in pairs):
                return old
        return Expectation(new.who, new.lines, old.server)

    def _listen(self) -> list[Expectation]:
        """All output of the server until it is silent, by connection."""
        with selectors.DefaultSelector() as selector:
            for connection in self._connections.values():
                if not connection.is_ended:
                    selector.register(connection.socket, selectors.EVENT_READ, connection)
            while selector.get_map() and (ready := selector.select(SILENCE_S)):
                for key, _ in ready:
                    if not key.data.receive():
                        selector.unregister(key.fileobj)
        heard = []
        for connection in self._connections.values():
            while connection.buffer:
                heard.append(Expectation(connection.who, tuple(map(escape, connection.answer()))))
            if connection.is_ended and connection.socket.fileno() >= 0:
                heard.append(Expectation(connection.who, None))
                connection.socket.close()
        return heard

    def _connection(self, who: str) -> Connection:
        if who not in self._connections:
            self._connections[who] = Connection(who, self._address, self._chunk_bytes)
            if who.endswith("3"):
                self._greet(self._connections[who])
        return self._connections[who]

    @staticmethod
    def _greet(connection: Connection) -> None:
        """Switch to RESP3 and read the answer, which the dialogues about HELLO cover."""
        connection.send(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")
        pairs = connection.line()
        if not pairs.startswith(b"%"):
            raise MismatchError(f"{connection.who}: HELLO 3 was answered {pairs!r}")
        # Seven keys and values, of which four values take one line and the others, like every key, two.
        while connection.line() != b"modules":
            pass
        if (modules := connection.line()) != b"*0":
            raise MismatchError(f"{connection.who}: HELLO 3 ends with {modules!r}")
