"""The set of users, as one immutable value.

Without users the set is open: every client may do everything, and the hub has to listen on loopback only. With users, a
client without login has the permissions of the anonymous `default` user, or none without such a user, and everything
without a grant is denied.

A reload makes a new `Users`; comparing versions shows whether live subscriptions have to be checked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from types import MappingProxyType

from equipoise.access.user import Action, User
from equipoise.errors import SettingsError
from equipoise.model import Glob

DEFAULT_USER = "default"

# A bare star matches neither system names nor the empty name, so each has a grant of its own.
_EVERY_NAME = (Glob(b"*"), Glob(b"$*"), Glob(b""))
_EVERYBODY = User(
    name=DEFAULT_USER,
    grants=MappingProxyType(dict.fromkeys(Action, _EVERY_NAME)),
    is_anonymous=True,
)


class Users:
    """Users by name and by certificate. Immutable: `adding` and `without` return new sets."""

    __slots__ = ("_by_certificate", "_by_name", "is_open", "version")

    def __init__(self, users: Iterable[User]) -> None:
        self._by_name: dict[str, User] = {}
        self._by_certificate: dict[str, User] = {}
        for user in users:
            self._admit(user)
        # True only for `Users.open()`: a file without users denies everything.
        self.is_open = False
        # Equal versions mean equal users, in any order.
        self.version = _digest(self._by_name.values())

    @classmethod
    def open(cls) -> Users:
        """No users: every client may do everything."""
        users = cls((_EVERYBODY,))
        users.is_open = True
        users.version = "open"
        return users

    @property
    def anonymous(self) -> User | None:
        """The user of a connection before its login; None: it has to log in first."""
        user = self._by_name.get(DEFAULT_USER)
        return user if user is not None and user.is_anonymous else None

    def get(self, name: str) -> User | None:
        return self._by_name.get(name)

    def by_certificate(self, common_name: str) -> User | None:
        return self._by_certificate.get(common_name)

    def successor_of(self, user: User) -> User | None:
        """The same user under these rules; None if it was removed or has a new secret."""
        successor = self._by_name.get(user.name)
        if successor is None or successor.secret != user.secret:
            return self.anonymous if user.is_anonymous else None
        return successor

    def adding(self, user: User) -> Users:
        """These users with `user` added, or in place of the user of its name."""
        return Users(({other.name: other for other in self} | {user.name: user}).values())

    def without(self, name: str) -> Users:
        return Users(user for user in self if user.name != name)

    def __iter__(self) -> Iterator[User]:
        """In the given order; an open set has none."""
        return iter(() if self.is_open else tuple(self._by_name.values()))

    def __len__(self) -> int:
        return 0 if self.is_open else len(self._by_name)

    def __repr__(self) -> str:
        return "Users.open()" if self.is_open else f"<Users {len(self)} version {self.version}>"

    def _admit(self, user: User) -> None:
        if user.name in self._by_name:
            raise SettingsError(f"user {user.name!r} is defined twice: remove one")
        self._by_name[user.name] = user
        for common_name in user.certificates:
            other = self._by_certificate.setdefault(common_name, user)
            if other is not user:
                raise SettingsError(
                    f"users {other.name!r} and {user.name!r}: certificates both name {common_name!r}; "
                    f"a certificate may belong to one user only"
                )


def _digest(users: Iterable[User]) -> str:
    """A short name for exactly these users and grants."""
    digest = hashlib.sha256()
    for user in sorted(users, key=lambda user: user.name):
        granted = [(str(action), [glob.pattern for glob in user.grants.get(action, ())]) for action in Action]
        facts = (user.name, user.secret, user.certificates, user.is_anonymous, granted)
        digest.update(repr(facts).encode())
    return digest.hexdigest()[:16]
