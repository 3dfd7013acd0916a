"""Match topic names against Redis glob patterns in time linear in the name.

The syntax is Redis's: `*` any run, `?` any byte, `[abc]`, `[a-z]`, `[^a]`, and `\\x` for a literal x. Ranges
compare unsigned bytes, as Redis does where `char` is unsigned (ARM) and for bytes below 128 everywhere.

A pattern is a chain of atoms, each a set of bytes, with stars between them. Most patterns have only atoms of a single
byte. Then the literals between the stars are searched for in order, the first at the beginning and the last at the
end, by linear searches. The leftmost match of each literal leaves most room for the rest, so no backtracking is
needed.

A pattern with `?` or classes is a nondeterministic automaton without branches. All its states are the bits of one
integer and advance together by a shift and a mask (Baeza-Yates and Gonnet's Shift-And, with a self-loop for each
star). One step per byte of the name, for every pattern: backtracking matchers are quadratic or worse on `a*a*a*b`
(CVE-2022-36021, CVE-2024-31228).
"""

from __future__ import annotations

import re
from itertools import pairwise

_STAR, _ANY, _OPEN, _ESCAPE, _CLOSE, _NOT, _DASH = b"*?[\\]^-"
_SYSTEM = b"$"
_EVERY_BYTE = frozenset(range(256))
# Cached sets of one byte, and the byte of each set.
_BYTES = [frozenset((byte,)) for byte in range(256)]
_TEXT_OF = {atom: bytes(atom) for atom in _BYTES}
_plain_run = re.compile(rb"[^*?\[\\]+").match


class Glob:
    """A compiled pattern. Immutable; equal patterns compile to equal behaviour."""

    __slots__ = ("_automaton", "_literals", "pattern", "prefix", "wildcards")

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        atoms, stars, self.wildcards = _parse(pattern)
        # Exactly one of the two is not None.
        self._literals: tuple[bytes, ...] | None = None
        self._automaton: _Automaton | None = None
        if self.wildcards == len(stars):
            self._literals = _split_at_stars(atoms, stars)
            self.prefix = self._literals[0]
        else:
            self._automaton = _Automaton(atoms, stars)
            self.prefix = _literal_prefix(atoms, stars)

    def matches(self, name: bytes) -> bool:
        """Names starting with `$` belong to the system and match only patterns that start with `$`."""
        if name.startswith(_SYSTEM) and not self.pattern.startswith(_SYSTEM):
            return False
        if not name:
            # As in Redis, only the empty pattern matches the empty name: `*` does not.
            return not self.pattern
        if self._automaton is not None:
            return self._automaton.accepts(name)
        assert self._literals is not None, "one of the two is set"
        return _has_in_order(name, self._literals)

    def __eq__(self, other: object) -> bool:
        return self.pattern == other.pattern if isinstance(other, Glob) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r})"


class _Automaton:
    """Bit i of its state: the first i atoms have matched. A star after atom i loops on bit i."""

    __slots__ = ("_accept", "_loops", "_masks", "_other")

    def __init__(self, atoms: list[frozenset[int]], stars: set[int]) -> None:
        self._accept = 1 << len(atoms)
        self._loops = sum(1 << i for i in stars)
        # Entering bit i + 1 on byte c needs c in atom i. Bytes no atom singles out share one mask.
        self._other = sum(2 << i for i, atom in enumerate(atoms) if len(atom) >= 128)
        masks: dict[int, int] = {}
        for i, atom in enumerate(atoms):
            singled_out = atom if len(atom) < 128 else _EVERY_BYTE - atom
            for byte in singled_out:
                # Set in the mask if the atom lists the byte, cleared if the atom excludes it.
                masks[byte] = masks.get(byte, self._other) ^ (2 << i)
        self._masks = masks

    def accepts(self, name: bytes) -> bool:
        state, loops, masks, other = 1, self._loops, self._masks, self._other
        for byte in name:
            state = ((state << 1) & masks.get(byte, other)) | (state & loops)
            if not state:
                return False
        return bool(state & self._accept)


def _has_in_order(name: bytes, literals: tuple[bytes, ...]) -> bool:
    """Whether the name contains the literals in order, with any bytes between them."""
    if len(literals) == 1:
        return name == literals[0]
    first, last = literals[0], literals[-1]
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for literal in literals[1:-1]:
        found = name.find(literal, at, end)
        if found < 0:
            return False
        at = found + len(literal)
    return True


def _split_at_stars(atoms: list[frozenset[int]], stars: set[int]) -> tuple[bytes, ...]:
    """The literals between the stars. All atoms are single bytes."""
    text = b"".join(map(_TEXT_OF.__getitem__, atoms))
    return tuple(text[a:b] for a, b in pairwise([0, *sorted(stars), len(text)]))


def _parse(pattern: bytes) -> tuple[list[frozenset[int]], set[int], int]:
    """Split into atoms and the indices before which a star stands; count the wildcards."""
    atoms: list[frozenset[int]] = []
    stars: set[int] = set()
    wildcards = 0
    i, end = 0, len(pattern)
    while i < end:
        byte = pattern[i]
        if byte == _STAR:
            if len(atoms) not in stars:
                wildcards += 1
            stars.add(len(atoms))
        elif byte == _ANY:
            atoms.append(_EVERY_BYTE)
            wildcards += 1
        elif byte == _OPEN:
            members, i = _parse_class(pattern, i + 1)
            atoms.append(members)
            wildcards += 1
        elif byte == _ESCAPE and i + 1 < end:
            i += 1
            atoms.append(_BYTES[pattern[i]])
        elif byte == _ESCAPE:
            atoms.append(_BYTES[byte])
        else:
            run = _plain_run(pattern, i)
            assert run is not None, "a byte that is not special is plain"
            atoms.extend(map(_BYTES.__getitem__, run[0]))
            i = run.end() - 1
        i += 1
    return atoms, stars, wildcards


def _parse_class(pattern: bytes, i: int) -> tuple[frozenset[int], int]:
    """Read from after `[`; return the set and the index of the closing bracket (or of the last byte).

    As in Redis: an unclosed class ends with the pattern, and a reversed range is read the right way round.
    """
    end = len(pattern)
    negated = i < end and pattern[i] == _NOT
    if negated:
        i += 1
    members: set[int] = set()
    while i < end and pattern[i] != _CLOSE:
        if pattern[i] == _ESCAPE and i + 1 < end:
            i += 1
            members.add(pattern[i])
        elif i + 2 < end and pattern[i + 1] == _DASH:
            low, high = sorted((pattern[i], pattern[i + 2]))
            members.update(range(low, high + 1))
            i += 2
        else:
            members.add(pattern[i])
        i += 1
    chosen = frozenset(members)
    return (_EVERY_BYTE - chosen if negated else chosen), min(i, end - 1)


def _literal_prefix(atoms: list[frozenset[int]], stars: set[int]) -> bytes:
    """The bytes every matching name begins with, so that an index can skip the rest."""
    prefix = bytearray()
    for i, atom in enumerate(atoms):
        if i in stars or len(atom) != 1:
            break
        prefix.extend(atom)
    return bytes(prefix)
