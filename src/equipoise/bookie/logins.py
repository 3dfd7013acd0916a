"""Logins at a bookie with TLS: users of the region that have the permission to link.

The rules are read from the store at each login. Checking a password takes 50 ms of CPU, so it runs in a thread.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from equipoise.access.secret import verify_secret
from equipoise.errors import SettingsError, StoreError
from equipoise.ledger_client.bookie_pool import BookieAccess
from equipoise.store.contract import Store
from equipoise.store.records.users import UsersStore
from equipoise.store.tree import Tree

__all__ = ["BookieSecurity", "judge_login"]

_REFUSED = "no such user, or another password"


@dataclass(frozen=True, slots=True)
class BookieSecurity:
    """Settings of a bookie beyond loopback: its certificate, and its login at other bookies."""

    certificate: str
    key: str
    access: BookieAccess

    def context(self) -> ssl.SSLContext:
        """Raises SettingsError if the files cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key or None)
        except (OSError, ssl.SSLError) as problem:
            raise SettingsError(f"cannot use the certificate {self.certificate}: {problem}") from problem
        return context


async def judge_login(store: Store, tree: Tree, name: str, password: str) -> str:
    """Why the user is refused; empty: accepted."""
    try:
        users = (await UsersStore(store, tree).load()).users
    except StoreError as problem:
        return f"the bookie cannot read the users: {problem}"
    user = users.get(name)
    if users.is_open or user is None or not user.secret:
        return _REFUSED
    if not await asyncio.to_thread(verify_secret, user.secret, password.encode()):
        return _REFUSED
    return "" if user.may_link else "the user lacks the grant link"
