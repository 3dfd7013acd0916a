"""Create users from a scenario's rules, with cheap hashes: the strength of secrets is not simulated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache

from equipoise.access import DECOY_SECRET, Action, User, Users, hash_secret, parse_users, verify_secret
from equipoise.access.secret import ScryptCost
from equipoise.hub.access import login
from equipoise.lab.scenarios import AclSync, Grants
from equipoise.lab.simulation.ablation import replaced
from equipoise.model import Glob
from equipoise.store.records import users as stored_users

__all__ = ["HUBS_USER", "quick_secrets", "users_of"]

# The lowest cost that hubs accept.
QUICK_COST = ScryptCost(n=1024, r=1, p=1)
# Hubs log in as this user on other hubs; its password is its name, as for every user.
HUBS_USER = "hubs"


@contextmanager
def quick_secrets() -> Iterator[None]:
    """Check each secret once per process, because scrypt is slow by design, and parse the users of the store once.

    The results never change, and users are immutable.
    """
    with replaced(login, "verify_secret", _remembered), replaced(stored_users, "parse_users", _parsed):
        yield


@cache
def _remembered(encoded: str, password: bytes) -> bool:
    # The decoy of unknown users has the full cost, and no password.
    return encoded != DECOY_SECRET and verify_secret(encoded, password)


# All hubs of a world read the same text.
_parsed = lru_cache(maxsize=64)(parse_users)


@cache
def users_of(rules: AclSync) -> Users:
    """Users whose password is their name. A publisher may create the topics it publishes to."""
    return Users([*map(_user, rules), _hubs_user()])


def _user(grants: Grants) -> User:
    return User(
        name=grants.user,
        secret=_secret(grants.user),
        grants={
            Action.CREATE: _globs(grants.publish + grants.subscribe),
            Action.PUBLISH: _globs(grants.publish),
            Action.SUBSCRIBE: _globs(grants.subscribe),
            **({Action.DURABLE: _globs(grants.durable)} if grants.durable else {}),
            Action.FILTER: _globs(grants.subscribe),
        },
    )


@cache
def _hubs_user() -> User:
    grants = {Action.LINK: _globs(("*",)), Action.OPERATE: _globs(("*",))}
    return User(name=HUBS_USER, secret=_secret(HUBS_USER), grants=grants)


@cache
def _secret(name: str) -> str:
    """The name is the password."""
    return hash_secret(name.encode(), salt=b"saltsalt", cost=QUICK_COST)


def _globs(patterns: tuple[str, ...]) -> tuple[Glob, ...]:
    return tuple(Glob(pattern.encode()) for pattern in patterns)
