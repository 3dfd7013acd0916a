"""Permissions of clients in a world, and how they change during the run.

The password of each user is its name. Patterns are globs over topic names, as in the users file.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Access", "AclSync", "Grants"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """What one user may do. To publish to a topic that is new is also to create it; to subscribe, also by filter."""

    user: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    durable: tuple[str, ...] = ()


AclSync = tuple[Grants, ...]
"All users at one time. A client without a user has no permissions."


@dataclass(frozen=True, slots=True)
class Access:
    """The rules a world starts and ends with, and those that a change of rules puts in their place."""

    rules: AclSync
    alternatives: tuple[AclSync, ...] = ()
