"""Hash passwords for storage in a file, and verify passwords against the hash.

The encoded form carries its own parameters, `scrypt$n$r$p$salt$hash` with salt and hash in base64, so the
cost can be raised for new passwords while old ones still verify.

Always true: verifying needs at most `COST_BYTES_MAX` of memory, for any file.

Both functions keep a core busy for some 50 ms at the default cost: a hub calls `verify_secret` off its loop.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass

from equipoise.errors import SettingsError

_SCHEME = "scrypt"
_HASH_BYTES = 32

# A salt must differ between users, for which 8 random bytes suffice; the rest is for hashes of other tools.
SALT_BYTES_MIN, SALT_BYTES_MAX = 8, 64
HASH_BYTES_MIN, HASH_BYTES_MAX = 16, 64
# Longer than any passphrase, and less than the input limit of a connection without login.
PASSWORD_BYTES_MAX = 1024
# Four times the default: the cost can be raised, and 100 logins at once still fit a small machine.
COST_BYTES_MAX = 64 * 1024 * 1024
N_MIN, N_MAX = 2**10, 2**17
R_MAX, P_MAX = 32, 4


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """scrypt's parameters (RFC 7914): memory is 128·n·r bytes, time grows with n·r·p.

    The defaults are those of the scrypt paper for interactive logins: 16 MiB and some 50 ms. Twice as much
    would double what a burst of reconnecting clients costs a hub, which has one core, and gains one bit.
    """

    n: int = 2**14
    r: int = 8
    p: int = 1

    @property
    def memory_bytes(self) -> int:
        """The memory of the algorithm: its n blocks, one per lane, and two of scratch."""
        return 128 * self.r * (self.n + self.p + 2)

    def check(self) -> None:
        """Raise SettingsError if the cost is too high for a hub."""
        if not (N_MIN <= self.n <= N_MAX and self.n & (self.n - 1) == 0):
            raise SettingsError(f"scrypt n={self.n}: use a power of two from {N_MIN} to {N_MAX}")
        if not (1 <= self.r <= R_MAX and 1 <= self.p <= P_MAX):
            raise SettingsError(
                f"scrypt r={self.r} p={self.p}: use r from 1 to {R_MAX} and p from 1 to {P_MAX}"
            )
        if 128 * self.n * self.r > COST_BYTES_MAX:
            raise SettingsError(
                f"scrypt n={self.n} r={self.r}: lower them until 128·n·r is at most {COST_BYTES_MAX}"
            )


@dataclass(frozen=True, slots=True)
class _Secret:
    cost: ScryptCost
    salt: bytes
    digest: bytes


DEFAULT_COST = ScryptCost()


def hash_secret(password: bytes, *, salt: bytes, cost: ScryptCost = DEFAULT_COST) -> str:
    """Encode a password. `salt` is random bytes, new for every password."""
    cost.check()
    if not 1 <= len(password) <= PASSWORD_BYTES_MAX:
        raise SettingsError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes, this one has {len(password)}")
    if b"\0" in password:
        raise SettingsError("a password has no NUL byte: remove it")
    if not SALT_BYTES_MIN <= len(salt) <= SALT_BYTES_MAX:
        raise SettingsError(
            f"a salt has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes, this one has {len(salt)}"
        )
    return _encode(_Secret(cost, salt, _derive(password, salt, cost, _HASH_BYTES)))


def verify_secret(encoded: str, password: bytes) -> bool:
    """Whether the password is the encoded one. Takes the same time for every wrong password.

    Raises SettingsError if `encoded` is malformed; secrets accepted by `parse_users` are well-formed.
    """
    secret = _decode(encoded)
    # HMAC, inside scrypt, pads a short key with NULs: "pw" and "pw\\0" would be one password.
    if len(password) > PASSWORD_BYTES_MAX or b"\0" in password:
        return False
    return hmac.compare_digest(_derive(password, secret.salt, secret.cost, len(secret.digest)), secret.digest)


def check_secret(encoded: str) -> None:
    """Raise SettingsError unless `encoded` is well formed and affordable."""
    _decode(encoded)


def _derive(password: bytes, salt: bytes, cost: ScryptCost, length: int) -> bytes:
    # OpenSSL refuses more than 32 MiB by default; twice the need leaves room for its overhead.
    return hashlib.scrypt(
        password, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=2 * cost.memory_bytes, dklen=length
    )


def _encode(secret: _Secret) -> str:
    cost = secret.cost
    blobs = (base64.b64encode(blob).decode() for blob in (secret.salt, secret.digest))
    return "$".join((_SCHEME, str(cost.n), str(cost.r), str(cost.p), *blobs))


def _decode(encoded: str) -> _Secret:
    parts = encoded.split("$")
    if len(parts) != 6 or parts[0] != _SCHEME:
        raise SettingsError("a secret reads scrypt$n$r$p$salt$hash: make one with `equipoise users passwd`")
    cost = ScryptCost(*(_number(part) for part in parts[1:4]))
    cost.check()
    salt, digest = (_blob(part) for part in parts[4:])
    if not SALT_BYTES_MIN <= len(salt) <= SALT_BYTES_MAX:
        raise SettingsError(
            f"the salt of a secret has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes, not {len(salt)}"
        )
    if not HASH_BYTES_MIN <= len(digest) <= HASH_BYTES_MAX:
        raise SettingsError(
            f"the hash of a secret has {HASH_BYTES_MIN} to {HASH_BYTES_MAX} bytes, not {len(digest)}"
        )
    return _Secret(cost, salt, digest)


def _number(text: str) -> int:
    # `int` alone would accept signs, spaces, underscores and other scripts' digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise SettingsError(f"{text!r} in a secret is not a small whole number: scrypt$n$r$p$salt$hash")
    return int(text)


def _blob(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SettingsError(
            "salt and hash of a secret are base64: make one with `equipoise users passwd`"
        ) from error


# For a login with an unknown name: checking against this takes as long as a wrong password does, so the time does not
# reveal which names exist. No password verifies, because no scrypt output is all zeros.
DECOY_SECRET = _encode(_Secret(DEFAULT_COST, bytes(16), bytes(_HASH_BYTES)))
