"""Secrets: what is encoded verifies, nothing else does, and no file can ask for more than the bound."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.access import DECOY_SECRET, ScryptCost, hash_secret, verify_secret
from equipoise.access.secret import COST_BYTES_MAX, N_MAX, N_MIN, P_MAX, PASSWORD_BYTES_MAX, R_MAX
from equipoise.errors import SettingsError

CHEAP = ScryptCost(n=N_MIN, r=1, p=1)
SALT = b"salt" * 4
SALT_TEXT = base64.b64encode(SALT).decode()
HASH_TEXT = base64.b64encode(bytes(32)).decode()


passwords = st.binary(min_size=1, max_size=64).filter(lambda password: 0 not in password)


@settings(max_examples=30, deadline=None)
@given(
    password=passwords,
    other=st.binary(max_size=64) | passwords,
    salt=st.binary(min_size=8, max_size=64),
)
def test_a_password_verifies_against_its_own_secret_and_no_other_does(
    password: bytes, other: bytes, salt: bytes
) -> None:
    encoded = hash_secret(password, salt=salt, cost=CHEAP)
    assert verify_secret(encoded, password)
    assert verify_secret(encoded, other) is (other == password)


def test_the_encoded_form_carries_its_parameters_and_is_plain_scrypt() -> None:
    encoded = hash_secret(b"pw", salt=SALT, cost=ScryptCost(n=2048, r=2, p=3))
    expected = hashlib.scrypt(b"pw", salt=SALT, n=2048, r=2, p=3, dklen=32)
    assert encoded == f"scrypt$2048$2$3${SALT_TEXT}${base64.b64encode(expected).decode()}"


def test_the_default_cost_is_that_of_the_scrypt_paper() -> None:
    encoded = hash_secret(b"pw", salt=SALT)
    assert encoded.startswith("scrypt$16384$8$1$")
    assert verify_secret(encoded, b"pw")


def test_the_largest_cost_a_file_may_ask_for_is_within_the_bound_and_works() -> None:
    cost = ScryptCost(n=2**16, r=8, p=1)
    assert 128 * cost.n * cost.r == COST_BYTES_MAX
    assert verify_secret(hash_secret(b"pw", salt=SALT, cost=cost), b"pw")


def test_no_password_opens_the_decoy() -> None:
    assert DECOY_SECRET.startswith("scrypt$16384$8$1$")
    assert not verify_secret(DECOY_SECRET, b"")
    assert not verify_secret(DECOY_SECRET, b"pw")


def test_a_password_too_long_to_have_been_set_is_refused_without_hashing_it() -> None:
    encoded = hash_secret(b"x" * PASSWORD_BYTES_MAX, salt=SALT, cost=CHEAP)
    assert verify_secret(encoded, b"x" * PASSWORD_BYTES_MAX)
    assert not verify_secret(encoded, b"x" * (PASSWORD_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "cost",
    [
        ScryptCost(n=N_MIN // 2),
        ScryptCost(n=N_MIN + 1),
        ScryptCost(n=N_MAX * 2, r=1),
        ScryptCost(n=N_MAX, r=8),
        ScryptCost(r=0),
        ScryptCost(n=N_MIN, r=R_MAX + 1),
        ScryptCost(p=0),
        ScryptCost(p=P_MAX + 1),
        ScryptCost(n=0),
        ScryptCost(n=-(2**14)),
    ],
)
def test_a_cost_that_is_too_weak_or_too_dear_is_refused(cost: ScryptCost) -> None:
    with pytest.raises(SettingsError, match="scrypt"):
        hash_secret(b"pw", salt=SALT, cost=cost)


@pytest.mark.parametrize(
    ("password", "complaint"),
    [(b"", "1 to 1024 bytes"), (b"x" * (PASSWORD_BYTES_MAX + 1), "1 to 1024 bytes"), (b"pw\0", "NUL")],
)
def test_a_password_out_of_bounds_cannot_be_set(password: bytes, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        hash_secret(password, salt=SALT, cost=CHEAP)


def test_a_password_followed_by_a_nul_is_not_the_password() -> None:
    encoded = hash_secret(b"pw", salt=SALT, cost=CHEAP)
    assert hashlib.scrypt(b"pw\0", salt=SALT, n=1024, r=1, p=1) == hashlib.scrypt(
        b"pw", salt=SALT, n=1024, r=1, p=1
    )
    assert not verify_secret(encoded, b"pw\0")


@pytest.mark.parametrize("salt", [b"", b"1234567", b"x" * 65])
def test_a_salt_out_of_bounds_is_refused(salt: bytes) -> None:
    with pytest.raises(SettingsError, match="8 to 64 bytes"):
        hash_secret(b"pw", salt=salt, cost=CHEAP)


@pytest.mark.parametrize(
    ("encoded", "complaint"),
    [
        ("", "reads scrypt"),
        ("password", "reads scrypt"),
        (f"bcrypt$1024$1$1${SALT_TEXT}${HASH_TEXT}", "reads scrypt"),
        (f"scrypt$1024$1$1${SALT_TEXT}${HASH_TEXT}$", "reads scrypt"),
        (f"scrypt$1_024$1$1${SALT_TEXT}${HASH_TEXT}", "'1_024'"),
        (f"scrypt$-1024$1$1${SALT_TEXT}${HASH_TEXT}", "'-1024'"),
        (f"scrypt$ 1024$1$1${SALT_TEXT}${HASH_TEXT}", "' 1024'"),
        (f"scrypt$١٠٢٤$1$1${SALT_TEXT}${HASH_TEXT}", "small whole number"),
        (f"scrypt${'9' * 5000}$1$1${SALT_TEXT}${HASH_TEXT}", "small whole number"),
        (f"scrypt$4194304$8$1${SALT_TEXT}${HASH_TEXT}", "n=4194304"),
        (f"scrypt$131072$32$1${SALT_TEXT}${HASH_TEXT}", "r=32"),
        (f"scrypt$1024$1$1$!!!!${HASH_TEXT}", "base64"),
        (f"scrypt$1024$1$1$é${HASH_TEXT}", "base64"),
        (f"scrypt$1024$1$1$AAAA${HASH_TEXT}", "salt"),
        (f"scrypt$1024$1$1${SALT_TEXT}$AAAA", "hash"),
        (f"scrypt$1024$1$1${SALT_TEXT}$", "hash"),
    ],
)
def test_a_malformed_secret_is_refused_with_what_is_wrong_with_it(encoded: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        verify_secret(encoded, b"pw")
