"""Credentials for bookies that require a login, for `equipoise bookie` and `equipoise bookies`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.errors import SettingsError
from equipoise.ledger_client.bookie_pool import BookieAccess

__all__ = ["ClusterPasswordFile", "ClusterUser", "TlsCa", "read_access"]

ClusterUser = Annotated[str, typer.Option(help='User to log in as on bookies; needs link = ["*"].')]
ClusterPasswordFile = Annotated[str, typer.Option(help="File with its password.")]
TlsCa = Annotated[str, typer.Option("--link-tls-ca", help="CA of the bookies' certificates (PEM).")]


def read_access(user: str, password_file: str, tls_ca: str) -> BookieAccess | None:
    """None without a user. Raises SettingsError if the file cannot be read."""
    if not user:
        return None
    if not password_file:
        raise SettingsError("--cluster-user needs --cluster-password-file")
    try:
        password = Path(password_file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"cannot read the password file {password_file}: {problem}") from problem
    return BookieAccess(user, password, tls_ca)
