"""The set of users: its members, the anonymous user, and when two sets are equal."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from equipoise.access import Action, User, Users
from equipoise.errors import SettingsError
from equipoise.model import Glob

ALICE = User(
    "alice",
    secret="s",
    certificates=("alice.example",),
    grants=MappingProxyType({Action.PUBLISH: (Glob(b"a*"),)}),
)
BOB = User("bob", secret="s")
ANONYMOUS = User("default", is_anonymous=True)


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("name", [b"game", b"", b"$hub", b"\xff\x00"])
def test_without_users_every_client_has_full_access(action: Action, name: bytes) -> None:
    anonymous = Users.open().anonymous
    assert anonymous is not None
    assert anonymous.may(action, name)


@pytest.mark.parametrize("pattern", [b"*", b"$*", b"", b"[a-z]?", b"$hub.[ab]"])
def test_without_users_every_client_may_subscribe_to_every_pattern(pattern: bytes) -> None:
    anonymous = Users.open().anonymous
    assert anonymous is not None
    assert anonymous.may_pattern(Action.SUBSCRIBE, pattern)
    assert anonymous.is_operator


def test_an_open_set_is_not_the_same_as_an_empty_one() -> None:
    assert Users.open().is_open
    assert not Users(()).is_open
    assert Users(()).anonymous is None
    assert Users.open().version != Users(()).version
    assert list(Users.open()) == [] and len(Users.open()) == 0


def test_the_first_user_added_closes_an_open_set() -> None:
    users = Users.open().adding(ALICE)
    assert not users.is_open
    assert users.anonymous is None
    assert list(users) == [ALICE]


def test_a_connection_without_a_login_is_the_anonymous_default_user() -> None:
    assert Users([ALICE, ANONYMOUS]).anonymous is ANONYMOUS
    assert Users([ALICE, User("default", secret="s")]).anonymous is None


def test_users_are_found_by_name_and_by_certificate() -> None:
    users = Users([ALICE, BOB])
    assert users.get("alice") is ALICE
    assert users.get("carol") is None
    assert users.by_certificate("alice.example") is ALICE
    assert users.by_certificate("alice") is None


def test_changing_a_set_leaves_the_old_one_alone() -> None:
    users = Users([ALICE])
    assert list(users.adding(BOB)) == [ALICE, BOB]
    assert list(users.without("alice")) == []
    assert list(users) == [ALICE]


def test_adding_a_namesake_replaces_it_in_place() -> None:
    other = User("alice", secret="t")
    assert list(Users([ALICE, BOB]).adding(other)) == [other, BOB]


def test_the_version_depends_on_the_users_and_not_on_their_order() -> None:
    assert Users([ALICE, BOB]).version == Users([BOB, ALICE]).version


@pytest.mark.parametrize(
    "other",
    [
        User("alice", secret="t", certificates=ALICE.certificates, grants=ALICE.grants),
        User("alice", secret="s", certificates=(), grants=ALICE.grants),
        User("alice", secret="s", certificates=ALICE.certificates),
        User(
            "alice",
            secret="s",
            certificates=ALICE.certificates,
            grants=MappingProxyType({Action.SUBSCRIBE: (Glob(b"a*"),)}),
        ),
        User("alicia", secret="s", certificates=ALICE.certificates, grants=ALICE.grants),
    ],
)
def test_any_change_to_a_user_changes_the_version(other: User) -> None:
    assert Users([other]).version != Users([ALICE]).version


def test_two_users_cannot_share_a_name_or_a_certificate() -> None:
    with pytest.raises(SettingsError, match="'alice' is defined twice"):
        Users([ALICE, ALICE])
    with pytest.raises(SettingsError, match=r"'alice' and 'carol'.*'alice\.example'"):
        Users([ALICE, User("carol", certificates=("alice.example",))])
