"""Decide whether one user has a permission on a topic.

A user holds grants: for each action, the patterns of topic names on which it is allowed. All else is denied.

Always true:
    a name that starts with `$` belongs to the system, and only a grant that starts with `$`, or an operator,
    has access to it;
    a pattern subscription is allowed only if every name that it can match is allowed. If that cannot be proved
    cheaply, it is denied: a plainer pattern resolves a denial, but nothing undoes a leak.

`secret` authenticates users, `users` holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from equipoise.model import Glob

_SYSTEM = b"$"
_EVERYTHING = b"*"
_SPECIAL = frozenset(b"*?[\\")


class Action(StrEnum):
    """The action of a grant. The value is the word in the users file, on the command line and in errors."""

    CREATE = "create"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    DURABLE = "durable"
    FILTER = "filter"
    # Operate the hub: list and disconnect clients, use system topics, record arrivals. `*` is the whole hub.
    OPERATE = "operate"
    # Read telemetry of these topics. Included in `operate`.
    OBSERVE = "observe"
    # Act as a hub: links carry messages without other grants. The only valid value is `*`; `operate` does not include
    # it.
    LINK = "link"


@dataclass(frozen=True, slots=True)
class User:
    """A name, its credentials, and its grants. Immutable."""

    name: str
    # None: no password; the user logs in by certificate, or is anonymous.
    secret: str | None = None
    # Common names of client certificates that authenticate this user.
    certificates: tuple[str, ...] = ()
    grants: Mapping[Action, tuple[Glob, ...]] = field(
        default_factory=lambda: MappingProxyType({}), hash=False
    )
    # `nopass = true` in the file: connections without login act as this user.
    is_anonymous: bool = False

    @property
    def is_operator(self) -> bool:
        """Whether the user may operate the hub as a whole: it has `operate` on `*`, system names included."""
        return any(_is_everything(grant) for grant in self._granted(Action.OPERATE))

    @property
    def may_link(self) -> bool:
        """Whether a hub may log in on other hubs as this user."""
        return any(_is_everything(grant) for grant in self._granted(Action.LINK))

    @property
    def may_observe(self) -> bool:
        """Whether the user may read telemetry of any topic."""
        return bool(self._granted(Action.OBSERVE) or self._granted(Action.OPERATE))

    @property
    def may_observe_all(self) -> bool:
        """Whether the user may read the telemetry of the whole hub."""
        return self.is_operator or any(_is_everything(grant) for grant in self._granted(Action.OBSERVE))

    def may(self, action: Action, name: bytes) -> bool:
        """Whether `action` is allowed on the topic `name`."""
        if any(grant.matches(name) for grant in self._granted(action)):
            return True
        if action is Action.OPERATE:
            return self.is_operator
        if action is Action.OBSERVE:
            return self.may(Action.OPERATE, name)
        return name.startswith(_SYSTEM) and self.may(Action.OPERATE, name)

    def may_pattern(self, action: Action, pattern: bytes) -> bool:
        """Whether `action` is allowed on every name that `pattern` can match."""
        wanted = Glob(pattern)
        if wanted.wildcards == 0:
            # It can match only its own prefix, if anything.
            return self.may(action, wanted.prefix)
        if any(_covers(grant, wanted) for grant in self._granted(action)):
            return True
        if action is Action.OPERATE:
            return self.is_operator
        return pattern.startswith(_SYSTEM) and self.may_pattern(Action.OPERATE, pattern)

    def _granted(self, action: Action) -> tuple[Glob, ...]:
        return self.grants.get(action, ())


def _is_everything(grant: Glob) -> bool:
    return grant.pattern != b"" and not grant.pattern.strip(_EVERYTHING)


def _covers(grant: Glob, wanted: Glob) -> bool:
    """Whether the grant provably matches every name that a pattern with wildcards can match.

    Inclusion of globs is in general a problem of automata; two cases are enough in practice: the same pattern, and a
    literal followed by a star, which covers every pattern that begins with that literal.
    """
    if grant.pattern == wanted.pattern:
        return True
    literal = grant.pattern.rstrip(_EVERYTHING)
    if literal == grant.pattern or not _SPECIAL.isdisjoint(literal):
        return False
    if literal:
        return wanted.prefix.startswith(literal)
    # A bare star matches no system name. A pattern that does not start with `$` matches none either.
    return not wanted.pattern.startswith(_SYSTEM)
