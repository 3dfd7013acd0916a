"""Fit the costs of a message, a match and a subscription at a hub from its measured messages.

    delay = fixed + match · matches + subscription · subscriptions

Least squares over fading sums, regularised towards the hub's profile: while all messages had the same number of
subscriptions, the cost of one is unknown, and the profile applies. A hub without a profile attributes all cost to
matches, until it has messages with different numbers of them.

Always true: no cost is negative.
"""

from __future__ import annotations

__all__ = ["DelayFit"]

# The weight of a message halves after this many.
HALF_MESSAGES = 2_000
_KEPT = 0.5 ** (1 / HALF_MESSAGES)
# The weight of the profile, in messages.
PRIOR_MESSAGES = 20.0


class DelayFit:
    """Owned by a LoadMeter. The fixed cost is fitted, too, so that it is not attributed to subscriptions."""

    def __init__(self, *, subscription_s: float, match_s: float | None = 0.0) -> None:
        """Initial costs from the profile. `match_s` None: there is none."""
        self._subscription_s = subscription_s
        self._match_s = match_s
        # Of (1, matches, subscriptions): the sums of products, and of products with the delay.
        self._weight = 0.0
        self._m = self._n = self._mm = self._mn = self._nn = 0.0
        self._y = self._my = self._ny = 0.0

    def add(self, delay_s: float, matches: float, subscriptions: float) -> None:
        kept = _KEPT
        self._weight = self._weight * kept + 1.0
        self._m = self._m * kept + matches
        self._n = self._n * kept + subscriptions
        self._mm = self._mm * kept + matches * matches
        self._mn = self._mn * kept + matches * subscriptions
        self._nn = self._nn * kept + subscriptions * subscriptions
        self._y = self._y * kept + delay_s
        self._my = self._my * kept + matches * delay_s
        self._ny = self._ny * kept + subscriptions * delay_s

    def costs(self) -> tuple[float, float]:
        """Seconds of one subscription, and of one match."""
        if self._weight < 1.0:
            return self._subscription_s, self._match_s or 0.0
        return self._solved()

    def _solved(self) -> tuple[float, float]:
        """The fit of deviations from the means, regularised towards the profile."""
        w = self._weight
        mean_m, mean_n, mean_y = self._m / w, self._n / w, self._y / w
        known_m = self._match_s
        if known_m is None:
            known_m = max(0.0, mean_y - self._subscription_s * mean_n) / mean_m if mean_m else 0.0
        # As strong as messages that deviate by a tenth of the mean.
        pull_m = PRIOR_MESSAGES * (0.1 * mean_m) ** 2 + 1e-9
        pull_n = PRIOR_MESSAGES * (0.1 * mean_n) ** 2 + 1e-9
        mm = self._mm - w * mean_m**2 + pull_m
        nn = self._nn - w * mean_n**2 + pull_n
        mn = self._mn - w * mean_m * mean_n
        my = self._my - w * mean_m * mean_y + pull_m * known_m
        ny = self._ny - w * mean_n * mean_y + pull_n * self._subscription_s
        determinant = mm * nn - mn * mn
        if determinant <= 0.0:
            return self._subscription_s, known_m
        match_s = (my * nn - ny * mn) / determinant
        subscription_s = (ny * mm - my * mn) / determinant
        if match_s < 0.0:
            match_s, subscription_s = 0.0, ny / nn
        elif subscription_s < 0.0:
            match_s, subscription_s = my / mm, 0.0
        return max(0.0, subscription_s), max(0.0, match_s)
