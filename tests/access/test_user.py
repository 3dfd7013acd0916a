"""What one user may do: tables for the rules, properties for what must hold whatever the patterns."""

from __future__ import annotations

import itertools
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.access import Action, User
from equipoise.model import Glob


def user(**grants: list[bytes]) -> User:
    return User(
        name="u",
        secret=None,
        grants=MappingProxyType({Action(key): tuple(map(Glob, value)) for key, value in grants.items()}),
    )


@pytest.mark.parametrize(
    ("grants", "name", "allowed"),
    [
        ([], b"game.a", False),
        ([b"game.*"], b"game.a", True),
        ([b"game.*"], b"game.", True),
        ([b"game.*"], b"game", False),
        ([b"game.*"], b"news", False),
        ([b"game.*", b"news"], b"news", True),
        ([b"news"], b"news.x", False),
        ([b"*"], b"anything", True),
        ([b"*"], b"", False),
        ([b""], b"", True),
        ([b"*"], b"$hub", False),
        ([b"?hub"], b"$hub", False),
        ([b"[$]hub"], b"$hub", False),
        ([b"$hub.*"], b"$hub.load", True),
        ([b"$hub.*"], b"$plan", False),
        ([b"$*"], b"hub", False),
    ],
)
@pytest.mark.parametrize("action", [Action.PUBLISH, Action.SUBSCRIBE, Action.CREATE])
def test_an_action_is_allowed_on_a_name_exactly_when_a_grant_matches_it(
    action: Action, grants: list[bytes], name: bytes, allowed: bool
) -> None:
    assert user(**{action: grants}).may(action, name) is allowed


@pytest.mark.parametrize("action", list(Action))
def test_a_grant_for_one_action_is_none_for_another(action: Action) -> None:
    bearer = user(**{action: [b"*"]})
    # An operator may look at what it operates.
    implied = [Action.OBSERVE] if action is Action.OPERATE else []
    assert [other for other in Action if bearer.may(other, b"game")] == [action, *implied]


@pytest.mark.parametrize(
    ("operate", "action", "name", "allowed"),
    [
        ([b"*"], Action.SUBSCRIBE, b"$hub.load", True),
        ([b"*"], Action.PUBLISH, b"$hub.load", True),
        ([b"*"], Action.OPERATE, b"$hub.load", True),
        ([b"*"], Action.OPERATE, b"", True),
        ([b"*"], Action.SUBSCRIBE, b"game", False),
        ([b"game.*"], Action.SUBSCRIBE, b"$hub.load", False),
        ([b"$hub.*"], Action.SUBSCRIBE, b"$hub.load", True),
        ([b"$hub.*"], Action.SUBSCRIBE, b"$plan", False),
    ],
)
def test_operating_reaches_system_names_and_no_others(
    operate: list[bytes], action: Action, name: bytes, allowed: bool
) -> None:
    assert user(operate=operate).may(action, name) is allowed


@pytest.mark.parametrize(
    ("operate", "is_operator"),
    [([], False), ([b"*"], True), ([b"**"], True), ([b"game.*"], False), ([b"$*"], False), ([b""], False)],
)
def test_only_a_bare_star_makes_an_operator_of_the_whole_hub(operate: list[bytes], is_operator: bool) -> None:
    assert user(operate=operate).is_operator is is_operator


@pytest.mark.parametrize(
    ("grants", "pattern", "allowed"),
    [
        ([], b"game.*", False),
        ([b"*"], b"game.*", True),
        ([b"*"], b"*", True),
        ([b"*"], b"[ab]?*", True),
        ([b"*"], b"$*", False),
        ([b"**"], b"game.*", True),
        ([b"game.*"], b"game.*", True),
        ([b"game.*"], b"game.?", True),
        ([b"game.*"], b"game.chat.*", True),
        ([b"game.*"], b"game*", False),
        ([b"game.*"], b"gam?.x", False),
        ([b"game.*"], b"*", False),
        ([b"game.*"], b"game.\\*[a]", True),
        ([b"g?me.*"], b"g?me.*", True),
        ([b"g?me.*"], b"game.*", False),  # true, but nothing here proves it
        ([b"*.chat"], b"game.chat", True),
        ([b"*.chat"], b"?.chat", False),
        ([b"a\\*"], b"a\\*?", False),
        ([b"a\\**"], b"a\\*?", False),  # a literal star before the star: not proved either
        ([b"a[b*"], b"a[b?", False),
        ([b"$hub.*"], b"$hub.load.*", True),
        ([b"$hub.*"], b"$*", False),
        ([b""], b"", True),
        ([b"*"], b"", False),
    ],
)
def test_a_pattern_is_allowed_only_where_a_grant_provably_covers_it(
    grants: list[bytes], pattern: bytes, allowed: bool
) -> None:
    assert user(subscribe=grants).may_pattern(Action.SUBSCRIBE, pattern) is allowed


@pytest.mark.parametrize(
    ("operate", "pattern", "allowed"),
    [
        ([b"*"], b"$*", True),
        ([b"*"], b"$hub.?", True),
        ([b"*"], b"game.*", False),
        ([b"$hub.*"], b"$hub.?", True),
        ([b"$hub.*"], b"$*", False),
    ],
)
def test_operating_reaches_system_patterns_and_no_others(
    operate: list[bytes], pattern: bytes, allowed: bool
) -> None:
    assert user(operate=operate).may_pattern(Action.SUBSCRIBE, pattern) is allowed


TOKENS = [b"a", b"$", b"*", b"?", b"[ab$]", b"\\*", b"\\\\", b"\\[", b"["]
NAMES = [bytes(letters) for size in range(4) for letters in itertools.product(b"ab$*[\\", repeat=size)]


def patterns_of(size_max: int) -> list[bytes]:
    return [
        b"".join(tokens) for size in range(size_max + 1) for tokens in itertools.product(TOKENS, repeat=size)
    ]


@pytest.mark.parametrize(
    ("granted", "action"), [("subscribe", "subscribe"), ("operate", "subscribe"), ("operate", "operate")]
)
def test_an_allowed_pattern_never_matches_a_name_that_is_denied(granted: str, action: str) -> None:
    """Every small pattern under every smaller grant, with every small name: too few to need luck."""
    asked = [(pattern, Glob(pattern)) for pattern in patterns_of(3)]
    checked = 0
    for grant in patterns_of(2):
        bearer = user(**{granted: [grant]})
        reached = {name for name in NAMES if bearer.may(Action(action), name)}
        for pattern, glob in asked:
            if bearer.may_pattern(Action(action), pattern):
                checked += 1
                leaked = [name for name in NAMES if name not in reached and glob.matches(name)]
                assert leaked == [], f"{pattern!r} under {grant!r}"
    assert checked > 100


patterns = st.lists(st.sampled_from(TOKENS), max_size=4).map(b"".join)


@given(literal=st.text("ab.", max_size=3), rest=patterns)
def test_whatever_begins_with_a_granted_prefix_is_allowed(literal: str, rest: bytes) -> None:
    """The proof is not so cautious that it denies the ordinary case."""
    prefix = b"g" + literal.encode()
    assert user(subscribe=[prefix + b"*"]).may_pattern(Action.SUBSCRIBE, prefix + rest)


def test_operating_a_hub_and_being_one_are_two_things() -> None:
    operator = user(operate=[b"*"])
    hub = user(link=[b"*"])
    observer = user(observe=[b"game.*"])
    assert operator.is_operator
    assert not operator.may_link
    assert hub.may_link
    assert not hub.is_operator
    assert not hub.may_observe
    assert not user(link=[b"game.*"]).may_link
    assert operator.may_observe_all
    assert observer.may_observe
    assert not observer.may_observe_all
    assert observer.may(Action.OBSERVE, b"game.1")
    assert not observer.may(Action.OBSERVE, b"chat")
    assert not observer.may(Action.OPERATE, b"game.1")
