"""Permissions of clients in a world, and how they change during the run.

The password of each user is its name. Patterns are globs over topic names, as in the users file.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Access", "AclSync", "Grants"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Permissions of one user. `publish` includes the creation of topics; `subscribe` includes filter subscriptions."""

    user: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    durable: tuple[str, ...] = ()


AclSync = tuple[Grants, ...]
"All users at one time. A client without a user has no permissions."


@dataclass(frozen=True, slots=True)
class Access:
    """The rules at the start and end of a run, and the alternatives that a rule change applies."""

    rules: AclSync
    alternatives: tuple[AclSync, ...] = ()
