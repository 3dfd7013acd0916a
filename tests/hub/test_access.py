"""Access: no message without a grant reaches a user, before, during and after a change of rules."""

from __future__ import annotations

import pytest

from equipoise.access import Users, parse_users
from hub.world import SECRET, Error, FakeClient, World, pipeline, users

ALL = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]'
OPERATOR = ALL + '\noperate = ["*"]'
GAME = 'create = ["game.*"]\npublish = ["game.*"]\nsubscribe = ["game.*"]'


def denied(user: str, action: str, name: str) -> Error:
    return Error(f"NOPERM user '{user}' may not {action} '{name}'")


def world_of(**grants: str) -> World:
    return World(users(root=OPERATOR, **grants))


def subscribed(world: World, user: str, command: str, *names: str, proto: int = 2) -> FakeClient:
    client = world.client(proto, user=user)
    client.send(command, *names)
    assert not any(isinstance(answer, Error) for answer in client.read())
    return client


# --- denied commands


@pytest.mark.parametrize(
    ("words", "action"),
    [
        (["SUBSCRIBE", "news"], "subscribe"),
        (["SSUBSCRIBE", "news"], "subscribe"),
        (["PSUBSCRIBE", "*"], "subscribe"),
        (["PSUBSCRIBE", "ga*"], "subscribe"),
        (["EQ.SUBSCRIBE", "news"], "subscribe"),
        (["EQ.PSUBSCRIBE", "*"], "subscribe"),
        (["PUBLISH", "news", "x"], "publish"),
        (["SPUBLISH", "news", "x"], "publish"),
        (["SUBSCRIBE", "$sys"], "subscribe"),
        (["PSUBSCRIBE", "$*"], "subscribe"),
        (["PUBLISH", "$sys", "x"], "publish"),
    ],
)
def test_names_that_no_grant_covers_are_denied(words: list[str], action: str) -> None:
    world = world_of(alice=GAME)
    assert world.client(3, user="alice").do(*words) == denied("alice", action, words[1])
    assert world.info_as("root", "acl_access_denied_channel") == "1"


def test_all_names_are_judged_before_any_is_subscribed_to() -> None:
    world = world_of(alice=GAME)
    client = world.client(user="alice")
    assert client.do("SUBSCRIBE", "game.1", "news") == denied("alice", "subscribe", "news")
    assert world.client(user="root").do("PUBLISH", "game.1", "x") == 0


def test_a_run_of_denied_publishes_is_denied_one_by_one() -> None:
    world = world_of(alice=GAME)
    client = world.client(user="alice")
    client.send_raw(pipeline(["PUBLISH", "news", "x"] for _ in range(5)))
    assert client.read() == [denied("alice", "publish", "news")] * 5
    client.send_raw(pipeline(["PUBLISH", name, "x"] for name in ("game.1", "news") * 4))
    assert client.read() == [0, denied("alice", "publish", "news")] * 4


def test_the_right_to_use_a_topic_is_not_the_right_to_create_it() -> None:
    world = world_of(alice='publish = ["*"]\nsubscribe = ["*"]')
    client, root = world.client(3, user="alice"), world.client(user="root")
    for words in (["PUBLISH", "t", "x"], ["SUBSCRIBE", "t"], ["EQ.SUBSCRIBE", "t"], ["SSUBSCRIBE", "t"]):
        assert client.do(*words) == denied("alice", "create", "t")
    root.do("PUBLISH", "t", "x")
    assert client.do("SUBSCRIBE", "t") == [b"subscribe", b"t", 1]
    assert root.do("PUBLISH", "t", "x") == 1


def test_an_unauthenticated_client_may_only_log_in() -> None:
    world = world_of()
    client = world.client()
    for words in (
        ["PING"],
        ["PUBLISH", "t", "x"],
        ["SUBSCRIBE", "t"],
        ["INFO"],
        ["CLIENT", "LIST"],
        ["COMMAND"],
    ):
        assert client.do(*words) == Error("NOAUTH Authentication required.")
    client.send_raw(pipeline(["PUBLISH", "t", "x"] for _ in range(4)))
    assert client.read() == [Error("NOAUTH Authentication required.")] * 4


def test_listings_omit_topics_that_the_user_may_not_use() -> None:
    world = world_of(alice=GAME)
    subscribed(world, "root", "SUBSCRIBE", "game.1", "secret", "$sys")
    subscribed(world, "root", "SSUBSCRIBE", "game.s", "secret.s")
    alice, root = world.client(user="alice"), world.client(user="root")
    assert alice.do("PUBSUB", "CHANNELS") == [b"game.1"]
    assert alice.do("PUBSUB", "CHANNELS", "s*") == []
    assert alice.do("PUBSUB", "CHANNELS", "$*") == []
    assert alice.do("PUBSUB", "SHARDCHANNELS") == [b"game.s"]
    assert alice.do("PUBSUB", "NUMSUB", "game.1", "secret") == [b"game.1", 1, b"secret", 0]
    assert root.do("PUBSUB", "CHANNELS", "$*") == [b"$sys"]
    for words in (["CLIENT", "LIST"], ["CLIENT", "KILL", "ID", "1"]):
        assert str(alice.do(*words)).startswith("NOPERM")


def test_info_names_no_topic_that_the_user_may_not_use() -> None:
    world = world_of(alice=GAME)
    for name in ("game.1", "secret"):
        slow = subscribed(world, "root", "SUBSCRIBE", name)
        slow.wire.is_stuck = True
        publisher = world.client(user="root")
        for _ in range(9):
            publisher.do("PUBLISH", name, b"x" * 1_000_000)
        assert slow.wire.is_gone()
    text = world.client(user="alice").text("INFO", "equipoise")
    assert "topic:'game.1'" in text
    assert "secret" not in text


def test_a_long_name_is_rejected_before_it_is_matched_with_grants() -> None:
    world = world_of(alice='publish = ["*?*?*?*x"]\nsubscribe = ["*?*?*?*x"]')
    client = world.client(user="alice")
    too_long = Error("ERR topic name longer than 4096 bytes (topic_bytes_max)")
    for command in (
        ["PUBLISH", "n" * 500_000, "x"],
        ["SUBSCRIBE", "n" * 500_000],
        ["SPUBLISH", "n" * 500_000, "x"],
    ):
        assert client.do(*command) == too_long


def test_a_denial_quotes_no_more_of_a_name_than_is_needed() -> None:
    world = world_of(alice=GAME)
    assert len(world.client(user="alice").do("PUBLISH", b"\xff" * 4_000, "x")) < 700


# --- rules that change


def reloaded(world: World, **grants: str) -> None:
    world.core.reload_users(users(root=OPERATOR, **grants))


@pytest.mark.parametrize(
    ("command", "name", "word"),
    [
        ("SUBSCRIBE", "game.1", b"unsubscribe"),
        ("PSUBSCRIBE", "game.*", b"punsubscribe"),
        ("EQ.SUBSCRIBE", "game.1", b"eq.unsubscribe"),
        ("EQ.PSUBSCRIBE", "game.*", b"eq.punsubscribe"),
    ],
)
def test_a_revoked_subscription_ends_and_the_client_is_notified(command: str, name: str, word: bytes) -> None:
    world = world_of(alice=GAME)
    client = subscribed(world, "alice", command, name, proto=3)
    root = world.client(user="root")
    assert root.do("PUBLISH", "game.1", "before") == 1
    client.read()
    reloaded(world, alice='subscribe = ["news"]')
    assert client.read() == [[word, name.encode(), 0]]
    assert root.do("PUBLISH", "game.1", "after") == 0
    assert client.read() == []
    assert world.info_as("root", "subscriptions_revoked") == "1"


def test_a_revoked_shard_subscription_ends_too() -> None:
    world = world_of(alice=GAME)
    client = subscribed(world, "alice", "SSUBSCRIBE", "game.1")
    reloaded(world, alice='subscribe = ["news"]')
    assert client.read() == [[b"sunsubscribe", b"game.1", 0]]
    assert world.client(user="root").do("SPUBLISH", "game.1", "x") == 0


def test_subscriptions_that_are_still_granted_continue() -> None:
    world = world_of(alice=GAME)
    client = subscribed(world, "alice", "SUBSCRIBE", "game.1", "game.2")
    reloaded(world, alice='subscribe = ["game.2"]')
    assert client.read() == [[b"unsubscribe", b"game.1", 1]]
    assert world.client(user="root").do("PUBLISH", "game.2", "x") == 1
    assert client.read() == [[b"message", b"game.2", b"x"]]


@pytest.mark.parametrize(("command", "name"), [("SUBSCRIBE", "game.1"), ("PSUBSCRIBE", "game.*")])
def test_messages_that_wait_are_dropped_when_their_topic_is_revoked(command: str, name: str) -> None:
    world = world_of(alice='create = ["*"]\nsubscribe = ["game.*", "news"]')
    client = subscribed(world, "alice", command, name)
    client.send("SUBSCRIBE", "news")
    client.read()
    client.wire.is_stuck = True
    root = world.client(user="root")
    root.do("PUBLISH", "news", b"n" * 70_000)
    for i in range(10):
        root.do("PUBLISH", "game.1", b"secret %d" % i)
        root.do("PUBLISH", "news", b"%d" % i)
    reloaded(world, alice='subscribe = ["news"]')
    client.wire.drain()
    deliveries = client.read()
    assert [d[2] for d in deliveries if d[0] == b"message"][1:] == [b"%d" % i for i in range(10)]
    assert b"secret" not in client.wire.sent
    assert world.core.index.topics[b"game.1"].drops == 10
    assert world.core.backlogs.bytes == 0


def test_publishing_is_authorised_by_the_current_rules() -> None:
    world = world_of(alice=GAME)
    client = world.client(user="alice")
    assert client.do("PUBLISH", "game.1", "x") == 0
    reloaded(world, alice='subscribe = ["game.*"]')
    assert client.do("PUBLISH", "game.1", "x") == denied("alice", "publish", "game.1")
    reloaded(world, alice=GAME)
    assert client.do("PUBLISH", "game.1", "x") == 0


def test_a_removed_user_is_disconnected() -> None:
    world = world_of(alice=GAME)
    alice, root = subscribed(world, "alice", "SUBSCRIBE", "game.1"), world.client(user="root")
    reloaded(world)
    assert alice.wire.is_gone()
    assert root.do("PUBLISH", "game.1", "x") == 0


def test_a_user_with_a_new_secret_is_disconnected() -> None:
    world = world_of(alice=GAME)
    alice = world.client(user="alice")
    changed = parse_users(f'[users.alice]\nsecret = "{SECRET.replace("1024", "2048")}"\n{GAME}')
    world.core.reload_users(changed)
    assert alice.wire.is_gone()


def test_applying_the_same_rules_again_changes_nothing() -> None:
    world = world_of(alice=GAME)
    alice = subscribed(world, "alice", "SUBSCRIBE", "game.1")
    version = world.core.index.version
    reloaded(world, alice=GAME)
    assert alice.is_connected()
    assert world.core.index.version == version


def test_a_login_begun_under_old_rules_ends_under_the_new_ones() -> None:
    world = world_of(alice=GAME)
    client = world.client()
    client.send("AUTH", "alice", "right")
    reloaded(world)
    world.check_secrets()
    assert client.read() == [Error("WRONGPASS invalid username-password pair or user is disabled.")]


def test_users_given_to_an_open_hub_end_the_anonymous() -> None:
    world = World()
    client = world.client()
    assert client.do("PUBLISH", "t", "x") == 0
    world.core.reload_users(users(alice=ALL))
    assert client.wire.is_gone()


def test_an_anonymous_user_keeps_what_the_new_rules_give_it() -> None:
    anonymous = "[users.default]\nnopass = true\ncreate = ['*']\nsubscribe = {}\n"
    world = World(parse_users(anonymous.format("['a', 'b']")))
    client = world.client()
    client.send("SUBSCRIBE", "a", "b")
    client.read()
    world.core.reload_users(parse_users(anonymous.format("['b']")))
    assert client.read() == [[b"unsubscribe", b"a", 1]]
    assert client.is_connected()


# --- certificates


def certified(common_names: str) -> Users:
    return parse_users(f"[users.drone]\ncertificates = {common_names}\n{ALL}\n")


def connect_with(world: World, *common_names: str) -> FakeClient:
    return FakeClient(world, None, 2, certificate=common_names)


def test_a_certificate_names_the_user_of_the_client() -> None:
    world = World(certified("['drone-7']"))
    assert connect_with(world, "drone-7").do("PUBLISH", "t", "x") == 0
    assert connect_with(world, "other", "drone-7").do("PUBLISH", "t", "x") == 0
    assert connect_with(world, "drone-8").do("PING") == Error("NOAUTH Authentication required.")


def test_reset_gives_a_certified_client_its_user_back() -> None:
    world = World(certified("['drone-7']"))
    client = connect_with(world, "drone-7")
    assert client.do("RESET") == b"RESET"
    assert client.do("PUBLISH", "t", "x") == 0
    world.advance(60)
    assert client.is_connected()


def test_a_client_with_a_certificate_that_is_no_longer_listed_is_disconnected() -> None:
    world = World(certified("['drone-7', 'drone-8']"))
    seven, eight = connect_with(world, "drone-7"), connect_with(world, "drone-8")
    world.core.reload_users(certified("['drone-8']"))
    assert seven.wire.is_gone()
    assert eight.is_connected()
