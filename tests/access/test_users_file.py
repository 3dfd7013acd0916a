"""The users file: parsing, and errors with line and remedy."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.access import Action, ScryptCost, User, Users, hash_secret, parse_users, render_users
from equipoise.access.file import FILE_BYTES_MAX, PATTERNS_MAX, USERS_MAX
from equipoise.errors import SettingsError
from equipoise.model import Glob

SECRET = hash_secret(b"pw", salt=b"12345678", cost=ScryptCost(n=1024, r=1, p=1))


def test_a_file_is_read_into_users_with_their_grants() -> None:
    users = parse_users(
        f"""
        [users.alice]
        secret = "{SECRET}"
        certificates = ["alice.example", "alice.test"]
        publish = ["game.*"]
        subscribe = ["game.*", "news"]
        operate = []

        [users.default]
        nopass = true
        subscribe = ["news"]
        """
    )
    assert list(users) == [
        User(
            "alice",
            secret=SECRET,
            certificates=("alice.example", "alice.test"),
            grants=MappingProxyType(
                {
                    Action.PUBLISH: (Glob(b"game.*"),),
                    Action.SUBSCRIBE: (Glob(b"game.*"), Glob(b"news")),
                    Action.OPERATE: (),
                }
            ),
        ),
        User("default", grants=MappingProxyType({Action.SUBSCRIBE: (Glob(b"news"),)}), is_anonymous=True),
    ]
    assert users.anonymous is users.get("default")
    assert users.by_certificate("alice.test") is users.get("alice")


@pytest.mark.parametrize("text", ["", "[users]\n", "# no users\n"])
def test_a_file_without_users_accepts_no_client(text: str) -> None:
    users = parse_users(text)
    assert not users.is_open
    assert users.anonymous is None


def alice(lines: str) -> str:
    return f'[users.alice]\nsecret = "{SECRET}"\n{lines}\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[users.alice", "not TOML"),
        ("a = " + "[" * 10_000, "not TOML"),
        ("port = 1", "unknown key 'port'"),
        ("users = 3", "`users` is not a table"),
        ("[users]\nalice = 3", "'alice' is not a table"),
        ('[users."al ice"]\nnopass = true', "'al ice'.*letters, digits"),
        ('[users."-alice"]\nnopass = true', "'-alice'"),
        ('[users."é"]\nnopass = true', "'é'"),
        (f"[users.{'a' * 65}]\nnopass = true", "1 to 64"),
        (alice('publsih = ["a"]'), "'alice': unknown key 'publsih'; the keys are secret, nopass, .*publish"),
        (alice('publish = "game.*"'), r'\'alice\': publish is not a list of strings; write publish = \["…"'),
        (alice("subscribe = [1]"), "'alice': subscribe is not a list"),
        (alice(f'create = ["{"x" * 257}"]'), "'alice': create: pattern of 257 bytes: use at most 256"),
        (alice(f'create = ["{"é" * 129}"]'), "'alice': create: pattern of 258 bytes"),
        (alice('operate = ["?????????"]'), "'alice': operate: .* 9 wildcards: use at most 8"),
        (alice(f"filter = {['x'] * (PATTERNS_MAX + 1)}"), "'alice': filter has 257 entries"),
        (alice('certificates = [""]'), "'alice': certificates: the common name ''"),
        (alice('nopass = "yes"'), "'alice': nopass is true or false"),
        (alice("nopass = true"), "'alice': nopass is only for the user 'default'"),
        ("[users.alice]\nsecret = 5", "'alice': secret is not a string; .*users passwd alice"),
        ('[users.alice]\nsecret = "hunter2"', "'alice': secret: .*scrypt"),
        ("[users.alice]", "'alice': no client can log in; run `equipoise users passwd alice`"),
        (f'[users.default]\nsecret = "{SECRET}"\nnopass = true', "'default': it has both secret and nopass"),
        (
            '[users.a]\ncertificates = ["x"]\n[users.b]\ncertificates = ["x"]',
            "'a' and 'b': certificates both name 'x'",
        ),
        ("#" * (FILE_BYTES_MAX + 1), "over 4194304 bytes"),
    ],
)
def test_an_error_has_a_line_and_a_remedy(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        parse_users(text)


def test_more_users_than_the_limit_are_rejected() -> None:
    text = "[users]\n" + "".join(f"u{i} = {{}}\n" for i in range(USERS_MAX + 1))
    with pytest.raises(SettingsError, match="10001 users; at most 10000"):
        parse_users(text)


_patterns = st.text(max_size=20).filter(lambda text: Glob(text.encode()).wildcards <= 8)
_users = st.builds(
    User,
    name=st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._@-]{0,10}\Z"),
    secret=st.just(SECRET),
    grants=st.dictionaries(
        st.sampled_from(Action),
        st.lists(_patterns.map(lambda text: Glob(text.encode())), min_size=1, max_size=3).map(tuple),
    ).map(MappingProxyType),
)


@given(st.lists(_users, max_size=4, unique_by=lambda user: user.name))
def test_what_is_written_reads_back_to_the_same_users(users: list[User]) -> None:
    again = parse_users(render_users(users))
    assert list(again) == users
    assert again.version == Users(users).version


def test_certificates_and_the_anonymous_user_survive_writing_too() -> None:
    users = Users(
        [User("default", is_anonymous=True), User("bob", certificates=('b"ob\\.example', "x\x7f\x01"))]
    )
    assert list(parse_users(render_users(users))) == list(users)


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_rejected_with_a_settings_error(text: str) -> None:
    try:
        parse_users("[users.alice]\n" + text)
    except SettingsError:
        pass
