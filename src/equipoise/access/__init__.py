"""Users, permissions and logins. Pure.

The rules are values: hubs check them, the users file stores them; no code here reads a file or a socket.
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
