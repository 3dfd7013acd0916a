"""Users, permissions and logins. Pure.

The rules are values: a hub asks them, a file spells them, nothing here reads a file or a socket.
"""

from equipoise.access.file import parse_users, render_users
from equipoise.access.secret import DECOY_SECRET, ScryptCost, hash_secret, verify_secret
from equipoise.access.user import Action, User
from equipoise.access.users import Users

__all__ = [
    "DECOY_SECRET",
    "Action",
    "ScryptCost",
    "User",
    "Users",
    "hash_secret",
    "parse_users",
    "render_users",
    "verify_secret",
]
