"""Match topic names against Redis glob patterns in time linear in the name.

The syntax is Redis's: `*` any run, `?` any byte, `[abc]`, `[a-z]`, `[^a]`, and `\\x` for a literal x. Ranges
compare unsigned bytes, as Redis does where `char` is unsigned (ARM) and for bytes below 128 everywhere.

A pattern is a chain of atoms, each a set of bytes, with stars between them: a nondeterministic automaton
without branches. All its states are kept as the bits of one integer and advance together by a shift and a
mask (Baeza-Yates and Gonnet's Shift-And, with a self-loop for each star). One step per byte of the name,
whatever the pattern: backtracking matchers are quadratic or worse on `a*a*a*b` (CVE-2022-36021,
CVE-2024-31228).
"""

from __future__ import annotations

_STAR, _ANY, _OPEN, _ESCAPE, _CLOSE, _NOT, _DASH = b"*?[\\]^-"
_SYSTEM = b"$"
_EVERY_BYTE = frozenset(range(256))


class Glob:
    """A compiled pattern. Immutable; equal patterns compile to equal behaviour."""

    __slots__ = (
        "_accept",
        "_loops",
        "_masks",
        "_other",
        "_start",
        "_trails",
        "pattern",
        "prefix",
        "wildcards",
    )

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        atoms, stars, self.wildcards = _parse(pattern)
        # Bit i of the state: the first i atoms have matched. A star after atom i loops on bit i.
        self._start = 1
        self._accept = 1 << len(atoms)
        self._loops = sum(1 << i for i in stars)
        special = frozenset().union(*(a for a in atoms if a is not _EVERY_BYTE and len(a) < 128))
        special |= frozenset().union(*(_EVERY_BYTE - a for a in atoms if len(a) >= 128))
        # Entering bit i + 1 on byte c needs c in atom i. Bytes no atom singles out share one mask.
        self._masks = {c: sum(2 << i for i, a in enumerate(atoms) if c in a) for c in special}
        self._other = sum(2 << i for i, a in enumerate(atoms) if len(a) >= 128)
        self.prefix = _literal_prefix(atoms, stars)
        # A literal and one star at its end, the commonest pattern by far, needs no automaton.
        self._trails = stars == {len(atoms)} and len(self.prefix) == len(atoms)

    def matches(self, name: bytes) -> bool:
        """Names starting with `$` belong to the system and match only patterns that start with `$`."""
        if name.startswith(_SYSTEM) and not self.pattern.startswith(_SYSTEM):
            return False
        if not name:
            # Redis gives the empty name to the empty pattern alone: not even `*` matches it.
            return not self.pattern
        state, loops, masks, other = self._start, self._loops, self._masks, self._other
        for byte in name:
            state = ((state << 1) & masks.get(byte, other)) | (state & loops)
            if not state:
                return False
        return bool(state & self._accept)

    def __eq__(self, other: object) -> bool:
        return self.pattern == other.pattern if isinstance(other, Glob) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r})"


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
        else:
            if byte == _ESCAPE and i + 1 < end:
                i += 1
                byte = pattern[i]
            atoms.append(frozenset((byte,)))
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
