"""Test whether one filter covers another: every message that matches the second matches the first.

Sound, not complete: a negative result may be wrong for strings, and then a hub only requests more messages than
necessary; a positive result is always right.
"""

from __future__ import annotations

from equipoise.content.filter import Constraint, Filter, Residue, ValueType

__all__ = ["covers", "edges_of"]

_NO_RESIDUE = Residue()


def covers(wide: Filter, narrow: Filter) -> bool:
    """Both lists of constraints are in the order of their paths."""
    asked = narrow.constraints
    i = 0
    for constraint in wide.constraints:
        path = constraint.path
        while i < len(asked) and asked[i].path < path:
            i += 1
        if i == len(asked) or asked[i].path != path or not _implies(asked[i], constraint):
            return False
        i += 1
    return True


def _implies(narrow: Constraint, wide: Constraint) -> bool:
    if narrow == wide or wide.type is ValueType.ANY:
        return True
    if narrow.type is not wide.type:
        return False
    if narrow.values is not None:
        return all(map(wide.accepts, narrow.values))
    if wide.values is not None:
        return False
    return _is_inside(narrow, wide) and (wide.residue is None or _implies_residue(narrow, wide.residue))


def edges_of(constraint: Constraint) -> tuple[str | float | None, str | float | None]:
    """The least value that a constraint may accept, and an upper bound: the greatest value, or beyond it."""
    if constraint.values is not None:
        return constraint.values[0], constraint.values[-1]  # type: ignore[return-value]
    low, high = constraint.low, constraint.high
    if constraint.type is not ValueType.STRING:
        return low, high
    # Every string is at least the empty one; strings with a prefix lie between it and the next of its length.
    prefix = "" if constraint.residue is None else constraint.residue.prefix
    end = _after_prefix(prefix)
    low = prefix if low is None else max(str(low), prefix)
    return low, end if high is None else high if end is None else min(str(high), end)


def _is_inside(narrow: Constraint, wide: Constraint) -> bool:
    low, high = edges_of(narrow)
    if wide.low is not None and (low is None or low < wide.low):  # type: ignore[operator]
        return False
    return wide.high is None or (high is not None and high <= wide.high)  # type: ignore[operator]


def _after_prefix(prefix: str) -> str | None:
    if not prefix:
        return None
    last = ord(prefix[-1])
    # Code points between the two are not characters; the next one is an equally good bound.
    following = 0xE000 if last == 0xD7FF else last + 1
    return None if last == 0x10FFFF else prefix[:-1] + chr(following)


def _implies_residue(narrow: Constraint, wide: Residue) -> bool:
    prefix, suffix, contained, _ = narrow.residue or _NO_RESIDUE
    known = (prefix, suffix, *contained)
    return (
        prefix.startswith(wide.prefix)
        and suffix.endswith(wide.suffix)
        and all(any(part in text for text in known) for part in wide.contained)
        and not any(map(narrow.accepts, wide.excluded))
    )
