"""What one user may do: tables for the rules, properties for what must hold whatever the patterns."""

from __future__ import annotations

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
    assert [other for other in Action if bearer.may(other, b"game")] == [action]


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


# A small alphabet, so that patterns, grants and names have much to do with one another.
patterns = st.lists(
    st.sampled_from([b"a", b"b", b"$", b"*", b"?", b"[ab]", b"[^a]", b"\\*", b"\\", b"["]), max_size=5
).map(b"".join)
names = st.lists(st.sampled_from([b"a", b"b", b"$", b"*", b"\\", b"["]), max_size=5).map(b"".join)


@given(
    subscribe=st.lists(patterns, max_size=3),
    operate=st.lists(patterns, max_size=2),
    action=st.sampled_from([Action.SUBSCRIBE, Action.OPERATE]),
    pattern=patterns,
    samples=st.lists(names, min_size=5, max_size=20),
)
def test_an_allowed_pattern_never_matches_a_name_that_is_denied(
    subscribe: list[bytes], operate: list[bytes], action: Action, pattern: bytes, samples: list[bytes]
) -> None:
    bearer = user(subscribe=subscribe, operate=operate)
    if bearer.may_pattern(action, pattern):
        wanted = Glob(pattern)
        leaked = [name for name in samples if wanted.matches(name) and not bearer.may(action, name)]
        assert leaked == []


@given(literal=st.text("ab.", max_size=3), rest=patterns)
def test_whatever_begins_with_a_granted_prefix_is_allowed(literal: str, rest: bytes) -> None:
    """The proof is not so cautious that it denies the ordinary case."""
    prefix = b"g" + literal.encode()
    assert user(subscribe=[prefix + b"*"]).may_pattern(Action.SUBSCRIBE, prefix + rest)
