"""A token is kept for a party that was refused, for a while, and for one party at a time."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.limits import TOKEN, Bucket, TokenReserve
from equipoise.limits.token_reserve import LINE_MAX

S = 10**9
# One token in a second, and room for one.
RATE, DEPTH = 1_000_000, TOKEN
PATIENCE_NS = S // 10


def empty() -> tuple[Bucket, TokenReserve[str]]:
    return Bucket(RATE, DEPTH, 0), TokenReserve()


def test_the_next_token_is_kept_until_the_one_after_it_would_be_there() -> None:
    bucket, reserve = empty()
    assert reserve.kept(0) == 0
    reserve.keep("ann", 0, bucket, 0, PATIENCE_NS)
    assert (reserve.party, reserve.kept(0), reserve.kept(2 * S - 1)) == ("ann", 1, 1)
    assert (reserve.kept(2 * S), reserve.party) == (0, None)


def test_those_who_wait_have_theirs_first() -> None:
    bucket, reserve = empty()
    reserve.keep("ann", 2, bucket, 0, PATIENCE_NS)
    assert reserve.kept(S) == 0
    reserve.passed(1)
    assert reserve.kept(S) == 0
    reserve.passed(1)
    assert reserve.kept(2 * S) == 1


def test_one_token_is_kept_at_most() -> None:
    bucket, reserve = empty()
    reserve.keep("ann", 0, bucket, 0, PATIENCE_NS)
    reserve.keep("bob", 0, bucket, 0, PATIENCE_NS)
    assert reserve.party == "ann"
    reserve.end()
    reserve.keep("bob", 0, bucket, 0, PATIENCE_NS)
    assert reserve.party == "bob"


def test_the_next_one_is_for_the_party_that_was_refused_first() -> None:
    """
    1. bob is refused, and has the next token. ann is refused meanwhile.
    2. bob has his token, and is refused again before ann is.
    3. The next token is kept for ann, the one after it for bob.
    """
    bucket, reserve = empty()
    reserve.keep("bob", 0, bucket, 0, PATIENCE_NS)
    reserve.keep("ann", 1, bucket, 0, PATIENCE_NS)
    reserve.end()
    reserve.keep("bob", 0, bucket, 0, PATIENCE_NS)
    assert reserve.party == "ann"
    reserve.end()
    reserve.keep("ann", 0, bucket, 0, PATIENCE_NS)
    assert reserve.party == "bob"


def test_a_party_that_waits_needs_no_token_kept() -> None:
    bucket, reserve = empty()
    reserve.keep("ann", 0, bucket, 0, PATIENCE_NS)
    reserve.keep("bob", 0, bucket, 0, PATIENCE_NS)
    reserve.leave("ann")
    assert reserve.kept(S) == 0
    reserve.keep("cat", 0, bucket, S, PATIENCE_NS)
    assert reserve.party == "bob"


def test_a_long_line_is_bounded() -> None:
    bucket, reserve = empty()
    for number in range(1000):
        reserve.keep(str(number), 0, bucket, 0, PATIENCE_NS)
    served = []
    while reserve.party is not None:
        served.append(reserve.party)
        reserve.end()
        if len(served) <= LINE_MAX:
            reserve.keep(str(2000 + len(served)), 0, bucket, 0, PATIENCE_NS)
    assert served == [str(number) for number in range(LINE_MAX + 1)]


def test_a_party_that_has_missed_its_token_is_the_last_in_line() -> None:
    """
    1. A token is kept for ann, who does not come. bob is refused meanwhile.
    2. ann comes late and is refused, after bob: the next token is kept for bob.
    3. bob has it. The one after it is kept for ann.
    """
    bucket, reserve = empty()
    reserve.keep("ann", 0, bucket, 0, PATIENCE_NS)
    reserve.keep("bob", 0, bucket, S, PATIENCE_NS)
    assert reserve.kept(2 * S) == 0
    assert bucket.take(1, 2 * S)
    reserve.keep("ann", 0, bucket, 2 * S, PATIENCE_NS)
    assert reserve.party == "bob"
    reserve.end()
    reserve.keep("bob", 0, bucket, 3 * S - 1, PATIENCE_NS)
    assert reserve.party == "ann"


def test_no_token_is_kept_for_parties_in_line_that_have_given_up() -> None:
    """
    1. A token is kept for the first of fifty. The others stand in line, and none of them tries again.
    2. ann tries again whenever the error tells it to. The first token after those that they were promised is hers.
    """
    bucket, reserve = empty()
    for number in range(50):
        reserve.keep(str(number), 0, bucket, 0, PATIENCE_NS)
    now, missed = 0, []
    while reserve.party != "ann":
        if reserve.party is not None and reserve.party not in missed:
            missed.append(reserve.party)
        if reserve.kept(now) == 0 and bucket.tokens(now):
            bucket.take(1, now)
            reserve.passed(1)
        reserve.keep("ann", 0, bucket, now, PATIENCE_NS)
        wait_ns = reserve.wait(bucket, 1, "ann", now)
        assert wait_ns is not None
        now += max(wait_ns, 1)
    assert missed == ["0", "1"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, S), st.sampled_from("abcdefgh"), st.booleans()), min_size=50, max_size=150
    )
)
def test_kept_tokens_cost_at_most_half_of_the_rate(visits: list[tuple[int, str, bool]]) -> None:
    """Parties come at any time, beside one that takes every token that it may: it has one of two at least."""
    bucket, reserve = empty()
    now, had, since = 0, 0, 0
    for passed, party, is_hers in visits:
        end = now + passed
        while (wait_ns := reserve.wait(bucket, 1, "greedy", now)) is not None and now + wait_ns <= end:
            now += wait_ns
            if bucket.tokens(now) > reserve.kept(now):
                assert bucket.take(1, now)
                reserve.passed(1)
                had, since = had + 1, now
            now += 1
        now = end
        if is_hers and reserve.party == party and reserve.kept(now) and bucket.take(1, now):
            reserve.end()
            had, since = had + 1, now
        reserve.keep(party, 0, bucket, now, PATIENCE_NS)
        # Of a cycle of two tokens at most, one is taken.
        assert now - since <= 2 * S + len(visits)
    assert had >= now // (2 * S) - 1


def test_none_is_kept_where_parties_may_wait_for_the_next_one() -> None:
    bucket, reserve = empty()
    reserve.keep("ann", 0, bucket, 0, S)
    assert reserve.party is None
    reserve.keep("ann", 0, Bucket(0, DEPTH, 0), 0, PATIENCE_NS)
    assert reserve.party is None


def test_others_wait_for_the_token_behind_it_or_until_it_is_kept_no_longer() -> None:
    bucket, reserve = empty()
    assert reserve.wait(bucket, 1, "bob", 0) == S
    reserve.keep("ann", 0, bucket, 0, PATIENCE_NS)
    assert reserve.wait(bucket, 1, "ann", 0) == S
    assert reserve.wait(bucket, 1, "bob", 0) == 2 * S
    assert reserve.wait(bucket, 1, "bob", S) == S
    bucket.fill(DEPTH)
    assert reserve.wait(bucket, 1, "bob", 2 * S - 5) == 5
    assert reserve.wait(bucket, 1, "bob", 2 * S) == 0
