"""Check that hubs can still log in to each other after a change of users.

Links between hubs need a user with `link = ["*"]`. A hub reads its login once, when it starts, so a change of users
that removes its user stops all messages between it and the others until it is restarted. Such a change has to be
rejected. Without users, every client is accepted: then the first users have to be those that the hubs log in as.

The caller lists the hubs and their logins.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.access.users import Users
from equipoise.errors import SettingsError

__all__ = ["check_links", "parted"]

# A longer list of names does not help a reader.
_NAMED_MAX = 5


def check_links(logins: Mapping[str, str], before: Users, after: Users) -> None:
    """Raise SettingsError with the next step if the change would disconnect hubs.

    `logins`: the login of each hub, by its name.
    """
    cut = parted(logins, before, after)
    if not cut:
        return
    without = [hub for hub in cut if not logins[hub]]
    if without:
        raise SettingsError(
            f"{_named(without)} could no longer log in on other hubs, and no message would pass between hubs: "
            "restart them one by one with --cluster-user hubs and --cluster-password-file (not checked "
            "before there are users), then `equipoise users add hubs --link '*'` before all others"
        )
    login = logins[cut[0]]
    same = [hub for hub in cut if logins[hub] == login]
    raise SettingsError(f"{_named(same)} log in on other hubs as {login!r}: {_step(login, before, after)}")


def parted(logins: Mapping[str, str], before: Users, after: Users) -> tuple[str, ...]:
    """The hubs that may link to others before the change and not after it, by name."""
    return tuple(
        hub
        for hub, login in sorted(logins.items())
        if _may_link(login, before) and not (_may_link(login, after) and _is_proof_kept(login, before, after))
    )


def _may_link(login: str, users: Users) -> bool:
    if users.is_open:
        return True
    user = users.get(login) if login else users.anonymous
    return user is not None and user.may_link and (user.secret is not None or user.is_anonymous)


def _is_proof_kept(login: str, before: Users, after: Users) -> bool:
    """Whether the password with which a hub was started is still valid; unknown for the first users."""
    old, new = before.get(login), after.get(login)
    return before.is_open or old is None or new is None or old.secret == new.secret


def _step(login: str, before: Users, after: Users) -> str:
    if before.is_open:
        return f"add that user first, with its current password: `equipoise users add {login} --link '*'`"
    need = "keep its password" if _may_link(login, after) else "keep it"
    return (
        f"{need} until they are started again as another user with --link '*', "
        "or disconnect them with --disconnect-hubs"
    )


def _named(hubs: list[str]) -> str:
    more = f" and {len(hubs) - _NAMED_MAX} more" if len(hubs) > _NAMED_MAX else ""
    return f"the hubs {', '.join(hubs[:_NAMED_MAX])}{more}"
