"""`equipoise users`: each command changes the file, and a failing one leaves it unchanged."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.access import Action, Users, parse_users, verify_secret
from equipoise.cli.users import app

runner = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.toml"


def run(file: Path, *arguments: str, typed: str = "") -> str:
    """Run a command that has to succeed; return what it printed."""
    result = runner.invoke(app, [*arguments, "--file", str(file)], input=typed)
    assert result.exit_code == 0, result.output
    return result.output


def fail(file: Path, *arguments: str, typed: str = "") -> str:
    """Run a command that has to fail without changing the file; return what it printed."""
    before = file.read_bytes() if file.exists() else None
    result = runner.invoke(app, [*arguments, "--file", str(file)], input=typed)
    assert result.exit_code == 1, result.output
    assert (file.read_bytes() if file.exists() else None) == before
    assert [path.name for path in file.parent.iterdir()] in ([], [file.name])
    return result.output


def read(file: Path) -> Users:
    return parse_users(file.read_text())


def password_of(file: Path, name: str, password: bytes) -> bool:
    user = read(file).get(name)
    assert user is not None and user.secret is not None
    return verify_secret(user.secret, password)


def test_a_user_is_added_with_a_password_typed_twice_and_its_grants(file: Path) -> None:
    run(
        file,
        "add",
        "alice",
        "--publish",
        "game.*",
        "--subscribe",
        "game.*",
        "--subscribe",
        "news",
        typed="pw\npw\n",
    )
    alice = read(file).get("alice")
    assert alice is not None
    assert alice.may(Action.PUBLISH, b"game.x") and alice.may(Action.SUBSCRIBE, b"news")
    assert not alice.may(Action.PUBLISH, b"news")
    assert password_of(file, "alice", b"pw")


@pytest.mark.parametrize("action", list(Action))
def test_every_action_has_its_option(file: Path, action: Action) -> None:
    run(file, "add", "alice", "--password-stdin", f"--{action}", "game.*", typed="pw\n")
    alice = read(file).get("alice")
    assert alice is not None
    # To publish or subscribe is to create, unless told otherwise.
    is_use = action in (Action.PUBLISH, Action.SUBSCRIBE)
    granted = [Action.CREATE, action] if is_use else [action]
    if action is Action.OPERATE:
        granted.append(Action.OBSERVE)
    assert [other for other in Action if alice.may(other, b"game.x")] == granted


def test_by_default_a_user_may_create_the_topics_that_it_may_use(file: Path) -> None:
    use = ("--publish", "game.*", "--subscribe", "game.*", "--subscribe", "news")
    run(file, "add", "alice", "--password-stdin", *use, typed="pw\n")
    run(file, "add", "bob", "--password-stdin", *use, "--create", "news", typed="pw\n")
    patterns = {user.name: [glob.pattern for glob in user.grants[Action.CREATE]] for user in read(file)}
    assert patterns == {"alice": [b"game.*", b"news"], "bob": [b"news"]}


def test_the_file_is_readable_by_its_owner_alone_and_leaves_no_draft(file: Path) -> None:
    run(file, "add", "alice", "--password-stdin", typed="pw\n")
    file.chmod(0o644)
    run(file, "add", "bob", "--password-stdin", typed="pw\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


def test_a_file_behind_a_link_is_replaced_and_the_link_kept(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    file.write_text("")
    link.symlink_to(file)
    run(link, "add", "alice", "--password-stdin", typed="pw\n")
    assert link.is_symlink()
    assert read(file).get("alice") is not None


def test_a_changed_password_leaves_everything_else_as_it_was(file: Path) -> None:
    run(
        file,
        "add",
        "alice",
        "--password-stdin",
        "--publish",
        "a*",
        "--certificate",
        "alice.example",
        typed="old\n",
    )
    run(file, "add", "bob", "--password-stdin", "--subscribe", "b*", typed="pw\n")
    before = read(file)
    run(file, "passwd", "alice", "--password-stdin", typed="new\n")
    after = read(file)
    assert password_of(file, "alice", b"new") and not password_of(file, "alice", b"old")
    assert after.get("bob") == before.get("bob")
    old, new = before.get("alice"), after.get("alice")
    assert old is not None and new is not None
    assert (new.grants, new.certificates) == (old.grants, old.certificates)


def test_a_removed_user_is_gone_and_the_others_stay(file: Path) -> None:
    for name in ("alice", "bob"):
        run(file, "add", name, "--password-stdin", typed="pw\n")
    run(file, "rm", "alice")
    assert [user.name for user in read(file)] == ["bob"]


def test_the_anonymous_user_and_one_by_certificate_need_no_password(file: Path) -> None:
    run(file, "add", "default", "--nopass", "--subscribe", "news")
    run(file, "add", "bob", "--nopass", "--certificate", "bob.example")
    users = read(file)
    assert users.anonymous is users.get("default")
    bob = users.by_certificate("bob.example")
    assert bob is not None and bob.secret is None and not bob.is_anonymous


def test_a_listing_shows_users_and_grants_and_never_a_secret(file: Path) -> None:
    run(
        file,
        "add",
        "alice",
        "--password-stdin",
        "--publish",
        "game.*",
        "--certificate",
        "a.example",
        typed="pw\n",
    )
    listing = run(file, "ls")
    assert "alice  (password, certificate a.example)" in listing
    assert "publish    game.*" in listing
    assert "scrypt" not in listing


@pytest.mark.parametrize(
    ("arguments", "typed", "complaint"),
    [
        (["add", "alice"], "pw\npw\n", "'alice' exists"),
        (["add", "al ice"], "", "letters, digits"),
        (["add", "bob", "--password-stdin"], "\n", "1 to 1024 bytes"),
        (["add", "bob", "--nopass"], "", "only for the user 'default'"),
        (["add", "bob", "--publish", "?" * 9], "", "9 wildcards"),
        (["add", "bob", "--nopass", "--certificate", "alice.example"], "", "both name 'alice.example'"),
        (["rm", "bob"], "", "no user 'bob'"),
        (["passwd", "bob"], "", "no user 'bob'"),
    ],
)
def test_a_rejected_command_gives_the_reason_and_leaves_the_file_unchanged(
    file: Path, arguments: list[str], typed: str, complaint: str
) -> None:
    run(file, "add", "alice", "--password-stdin", "--certificate", "alice.example", typed="pw\n")
    assert complaint in fail(file, *arguments, typed=typed)


@pytest.mark.parametrize("content", [b"[users.x]\n", b"\xff\xfe", b"not toml"])
def test_a_file_that_cannot_be_read_is_never_overwritten(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert "equipoise users: " in fail(file, "add", "alice", "--password-stdin", typed="pw\n")


@pytest.mark.parametrize("command", [["ls"], ["rm", "alice"], ["passwd", "alice"]])
def test_a_missing_file_is_an_error(file: Path, command: list[str]) -> None:
    assert f"there is no users file {file}: `equipoise users add` makes one" in fail(file, *command)
