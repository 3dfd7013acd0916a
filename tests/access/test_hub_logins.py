"""Changes of users that would disconnect hubs."""

from __future__ import annotations

import pytest

from equipoise.access import Users, hash_secret, parse_users
from equipoise.access.hub_logins import check_links, parted
from equipoise.access.secret import ScryptCost
from equipoise.errors import SettingsError

OPEN = Users.open()


def users(**grants: str) -> Users:
    """Each with its own name for a password."""
    secrets = {name: hash_secret(name.encode(), salt=b"x" * 16, cost=ScryptCost(n=1024)) for name in grants}
    return parse_users(
        "\n".join(f'[users.{name}]\nsecret = "{secrets[name]}"\n{grant}\n' for name, grant in grants.items())
    )


HUBS = users(hubs='link = ["*"]')


@pytest.mark.parametrize(
    ("login", "before", "after", "is_cut"),
    [
        ("", OPEN, HUBS, True),
        ("hubs", OPEN, HUBS, False),
        ("hubs", OPEN, users(ann='publish = ["*"]'), True),
        ("hubs", OPEN, users(hubs='link = ["game.*"]'), True),
        ("hubs", OPEN, parse_users('[users.hubs]\ncertificates = ["hub"]\nlink = ["*"]'), True),
        ("", OPEN, parse_users('[users.default]\nnopass = true\nlink = ["*"]'), False),
        ("hubs", HUBS, HUBS.without("hubs"), True),
        ("hubs", HUBS, HUBS.adding(next(iter(users(ann='publish = ["*"]')))), False),
        # Who is cut off already is no reason to refuse anything.
        ("", HUBS, HUBS.without("hubs"), False),
        ("gone", HUBS, users(ann='publish = ["*"]'), False),
    ],
)
def test_a_change_that_removes_a_hubs_login_disconnects_the_hub(
    login: str, before: Users, after: Users, is_cut: bool
) -> None:
    assert parted({"h1": login}, before, after) == (("h1",) if is_cut else ())


def test_another_password_cuts_the_hubs_that_have_the_old_one() -> None:
    user = HUBS.get("hubs")
    other = users(hubs='link = ["*"]', x='link = ["*"]').get("x")
    assert user is not None and other is not None
    changed = parse_users(f'[users.hubs]\nsecret = "{other.secret}"\nlink = ["*"]')
    assert parted({"h1": "hubs"}, HUBS, changed) == ("h1",)
    with pytest.raises(SettingsError, match="keep its password until"):
        check_links({"h1": "hubs"}, HUBS, changed)


def test_many_hubs_are_reported_in_one_line() -> None:
    with pytest.raises(SettingsError, match="h10, h11, h12 and 15 more could no longer") as told:
        check_links({f"h{i}": "" for i in range(20)}, OPEN, HUBS)
    assert len(str(told.value)) < 500
