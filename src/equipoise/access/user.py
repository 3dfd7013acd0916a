"""Decide whether one user has a permission on a topic.

A user holds grants: for each action, the patterns of topic names it is allowed on. What no grant covers is
denied.

Always true:
    a name that starts with `$` belongs to the system, and only a grant that starts with `$`, or an operator,
    reaches it;
    a pattern subscription is allowed only if every name it can ever match is allowed one by one. Where that
    cannot be proved cheaply the answer is no: a refusal can be mended by a plainer pattern, a leak cannot.

Proving who the user is belongs to `secret`, which users exist to `users`.
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
    """What a grant allows. The value is the word in the users file, on the command line and in errors."""

    CREATE = "create"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    DURABLE = "durable"
    FILTER = "filter"
    # Run the hub: see and disconnect clients, use system topics, record arrivals. `*` is the whole hub.
    OPERATE = "operate"
    # Read telemetry of these topics. Granted with `operate`, too.
    OBSERVE = "observe"
    # Be a hub: links carry messages past all other grants. Only `*` means anything, and `operate` does not include it.
    LINK = "link"


@dataclass(frozen=True, slots=True)
class User:
    """A name, how its bearer proves to be it, and what it may do. Immutable."""

    name: str
    # None: no password opens this user; it comes by certificate, or by `is_anonymous` without any proof.
    secret: str | None = None
    # Common names of client certificates that prove this user.
    certificates: tuple[str, ...] = ()
    grants: Mapping[Action, tuple[Glob, ...]] = field(
        default_factory=lambda: MappingProxyType({}), hash=False
    )
    # `nopass = true` in the file: connections that have not said who they are act as this user.
    is_anonymous: bool = False

    @property
    def is_operator(self) -> bool:
        """Whether the user may run the hub as a whole: it operates on `*`, system names included."""
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
            # It matches its own prefix, which is the whole of it, or nothing.
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

    Inclusion of globs is a question about automata; two shapes answer nearly all of it: the same pattern, and
    a literal followed by a star, which covers whatever must begin with that literal.
    """
    if grant.pattern == wanted.pattern:
        return True
    literal = grant.pattern.rstrip(_EVERYTHING)
    if literal == grant.pattern or not _SPECIAL.isdisjoint(literal):
        return False
    if literal:
        return wanted.prefix.startswith(literal)
    # A bare star reaches no system name. A pattern that does not start with `$` reaches none either.
    return not wanted.pattern.startswith(_SYSTEM)
