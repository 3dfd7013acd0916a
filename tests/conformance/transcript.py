r"""Dialogues with a Redis server, as text that people read and machines compare byte for byte.

    == PUBLISH counts the subscribers it reaches
    B> SUBSCRIBE news
    B< *3 | $9 | subscribe | $4 | news | :1
    A> PUBLISH news "hello world"
    A< :1
    B< *3 | $7 | message | $4 | news | $11 | hello world
    A>> *abc\r\n
    A< -ERR Protocol error: invalid multibulk length
    A closed

A connection is a capital letter, opened when first named; with a 3 after it (`A3`) it has said HELLO 3 before.
`>` sends a command, `>>` raw bytes; `<` is one answer, its lines set apart by bars and each ended by CRLF;
`<redis`, `<hub` and `closed by hub` are what only one of the two does, in a dialogue that `! differs` explains. Bytes
that do not print are `\xNN`.

An expected answer may hold placeholders for what legitimately differs from run to run:

    {int} {word} {any} {addr} {hex}   a number, a word, anything, host:port, hexadecimal digits
    {len}                             the length in bytes of the line behind the bar
    {each:a|b}                        one of these, every one of them once, in whatever order
    {int:x}                           what was found is called x; a later command may send it as {=x}
    {x*70000}                         in a command: 70,000 times x

Parsing, rendering and matching only; talking to a server belongs to `player`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "transcripts"

_SEND = re.compile(r"(?P<who>[A-Z]3?)(?P<raw>>>?) ?(?P<text>.*)")
_EXPECT = re.compile(r"(?P<who>[A-Z]3?)<(?P<server>redis|hub)? ?(?P<text>.*)")
_CLOSED = re.compile(r"(?P<who>[A-Z]3?) closed(?: by (?P<server>redis|hub))?")
_BAR = re.compile(r" \|(?: |$)")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|.)")
_HOLE = re.compile(r"\{(each:[^}]*|(?:int|word|any|addr|hex|len)(?::\w+)?)\}")
_SUBSTITUTE = re.compile(r"\{(?:=(?P<name>\w+)|(?P<unit>[^{}])\*(?P<times>\d+))\}")
_SHAPES = {
    "int": rb"-?\d+",
    "len": rb"\d+",
    "word": rb"[^ ]*",
    "any": rb".*",
    "addr": rb"[0-9a-f.:\[\]]+:\d+",
    "hex": rb"[0-9a-f]+",
}


@dataclass(frozen=True, slots=True)
class Expectation:
    """One answer on a connection, line by line, or (`lines` None) that it is closed."""

    who: str
    lines: tuple[str, ...] | None
    server: str | None = None


@dataclass(slots=True)
class Step:
    """Something sent and all that follows from it, on every connection."""

    who: str
    text: str
    is_raw: bool
    expected: list[Expectation] = field(default_factory=list)

    def of(self, server: str) -> list[Expectation]:
        return [answer for answer in self.expected if answer.server in (None, server)]

    def payload(self, known: dict[str, bytes]) -> bytes:
        """The bytes to send, with what was found earlier filled in."""
        if self.is_raw:
            return _substitute(unescape(self.text), known)
        words = [_substitute(word, known) for word in split_words(self.text)]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@dataclass(slots=True)
class Dialogue:
    """A named exchange. `notes` holds its `!` lines by their first word."""

    file: str
    name: str
    notes: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    @property
    def world(self) -> str:
        return self.notes.get("world", "open")

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


class Matcher:
    """Compares the lines of one dialogue with what they may be. Remembers what the placeholders found."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self._pools: dict[str, list[bytes]] = {}
        self._length: int | None = None

    def matches(self, expected: str, line: bytes) -> bool:
        announced, self._length = self._length, None
        if announced is not None and announced != len(line):
            return False
        found = _shape(expected).fullmatch(line)
        if found is None:
            return False
        holes = _HOLE.findall(expected)
        return all(self._take(hole, value) for hole, value in zip(holes, found.groups(), strict=True))

    def _take(self, hole: str, value: bytes) -> bool:
        kind, _, detail = hole.partition(":")
        if kind == "each":
            pool = self._pools.get(detail) or [unescape(choice) for choice in detail.split("|")]
            if value not in pool:
                return False
            pool.remove(value)
            self._pools[detail] = pool
            return True
        if kind == "len":
            self._length = int(value)
        elif detail:
            self.known[detail] = value
        return True


def load(folder: Path = FOLDER) -> list[Dialogue]:
    """Every dialogue of every file, in order."""
    return [
        dialogue for path in sorted(folder.glob("*.txt")) for dialogue in parse(path.read_text(), path.stem)
    ]


def parse(text: str, file: str) -> list[Dialogue]:
    dialogues: list[Dialogue] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if line.startswith("== "):
            dialogues.append(Dialogue(file, line[3:].strip()))
        elif not dialogues or not _add(dialogues[-1], line):
            raise ValueError(f"{file}.txt:{number}: cannot be understood: {line}")
    return dialogues


def render(dialogues: list[Dialogue]) -> str:
    """The text of a file; `parse` reads it back to the same dialogues."""
    return "\n".join(_render_one(dialogue) for dialogue in dialogues)


def escape(line: bytes) -> str:
    """A line of an answer as a transcript writes it, without placeholders."""
    text = "".join(chr(b) if 32 <= b < 127 and b not in b"\\{}" else f"\\x{b:02x}" for b in line)
    return re.sub(r"^ | $", r"\\x20", text.replace(" |", r" \x7c"))


def unescape(text: str) -> bytes:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) == 3 else {"r": "\r", "n": "\n", "t": "\t"}.get(code, code)

    return _ESCAPE.sub(one, text).encode("latin-1")


def split_words(text: str) -> list[bytes]:
    """The words of a command; double quotes keep spaces together and allow escapes."""
    return [unescape(quoted) if not bare else bare.encode("latin-1") for quoted, bare in _WORD.findall(text)]


def _add(dialogue: Dialogue, line: str) -> bool:
    """Take one line into the dialogue; False if it makes no sense there."""
    if line.startswith("#"):
        dialogue.comments.append(line)
    elif line.startswith("! "):
        word, _, rest = line[2:].partition(" ")
        dialogue.notes[word] = rest.strip()
    elif found := _SEND.fullmatch(line):
        dialogue.steps.append(Step(found["who"], found["text"], is_raw=found["raw"] == ">>"))
    elif (found := _EXPECT.fullmatch(line)) and dialogue.steps:
        lines = tuple(line.strip() for line in _BAR.split(found["text"]))
        dialogue.steps[-1].expected.append(Expectation(found["who"], lines, found["server"]))
    elif (found := _CLOSED.fullmatch(line)) and dialogue.steps:
        dialogue.steps[-1].expected.append(Expectation(found["who"], None, found["server"]))
    else:
        return False
    return True


def _render_one(dialogue: Dialogue) -> str:
    lines = [f"== {dialogue.name}", *dialogue.comments]
    lines += [f"! {word} {rest}".rstrip() for word, rest in dialogue.notes.items()]
    for step in dialogue.steps:
        lines.append(f"{step.who}{'>>' if step.is_raw else '>'} {step.text}".rstrip())
        for answer in step.expected:
            lines.append(_render_answer(answer))
    return "\n".join(lines) + "\n"


def _render_answer(answer: Expectation) -> str:
    if answer.lines is None:
        return f"{answer.who} closed" + (f" by {answer.server}" if answer.server else "")
    return f"{answer.who}<{answer.server or ''} {' | '.join(answer.lines)}".rstrip()


def _shape(expected: str) -> re.Pattern[bytes]:
    """A regular expression with one group for each placeholder."""
    pieces = _HOLE.split(expected)
    pattern = b""
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            pattern += re.escape(unescape(piece))
        elif piece.startswith("each:"):
            choices = (re.escape(unescape(choice)) for choice in piece[5:].split("|"))
            pattern += b"(" + b"|".join(choices) + b")"
        else:
            pattern += b"(" + _SHAPES[piece.partition(":")[0]] + b")"
    return re.compile(pattern, re.DOTALL)


def _substitute(data: bytes, known: dict[str, bytes]) -> bytes:
    def one(found: re.Match[str]) -> str:
        if found["name"]:
            return known[found["name"]].decode("latin-1")
        return found["unit"] * int(found["times"])

    return _SUBSTITUTE.sub(one, data.decode("latin-1")).encode("latin-1")
