"""Stock quotes and subscriptions to them, as in the evaluation of Cheung and Jacobsen (2006), with generated prices.

The paper's prices are from Yahoo! Finance. The prices here are random walks of daily prices, one per company, which
publishers repeat when they reach the end. Subscriptions are drawn from the paper's six templates, with values that
occur in the quotes.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from equipoise.content.filter import Filter
from equipoise.content.parsing import parse_filter

__all__ = ["QUOTE_BYTES", "TEMPLATES", "QuotePublisher", "StockMarket"]

# Size of a quote with 8 attributes on the wire.
QUOTE_BYTES = 125
DAYS = 250
# Probability and form of each template. The values occur in the quotes.
TEMPLATES = (
    (0.20, "class = 'STOCK' and symbol = '{symbol}' and high > {high}"),
    (0.20, "class = 'STOCK' and symbol = '{symbol}' and low < {low}"),
    (0.20, "class = 'STOCK' and symbol = '{symbol}' and volume > {volume}"),
    (0.34, "class = 'STOCK' and symbol = '{symbol}'"),
    (0.05, "class = 'STOCK' and volume > {volume}"),
    (0.01, "class = 'STOCK'"),
)
# Above the volume of every quote.
_VOLUME_NEVER = 10**12


class QuotePublisher(NamedTuple):
    """A company, its quotes of all days, and its publish rate."""

    symbol: str
    quotes: tuple[dict[str, Any], ...]
    rate_per_s: float


class StockMarket:
    """A market with `publishers` companies, whose rates are between 0 and `rate_per_s_max`."""

    def __init__(self, random: Random, *, publishers: int = 40, rate_per_s_max: float = 1.0) -> None:
        self._random = random
        self.publishers = [
            QuotePublisher(
                f"S{number:03}", _walk(f"S{number:03}", random), random.uniform(0.0, rate_per_s_max)
            )
            for number in range(publishers)
        ]

    def subscription(self, *, is_silent: bool) -> Filter:
        """A filter drawn from the templates. `is_silent`: no quote matches it."""
        random = self._random
        company = random.choice(self.publishers)
        form = random.choices([form for _, form in TEMPLATES], [weight for weight, _ in TEMPLATES])[0]
        quote = random.choice(company.quotes)
        symbol, volume = company.symbol, quote["volume"]
        if is_silent:
            # A symbol without quotes; a filter without a symbol gets a volume that no quote reaches.
            symbol, volume = f"Z{random.randrange(40):03}", _VOLUME_NEVER + random.randrange(1_000)
            if "symbol" not in form:
                form = TEMPLATES[4][1]
        text = form.format(symbol=symbol, high=quote["high"], low=quote["low"], volume=volume)
        return parse_filter(text.encode())


def _walk(symbol: str, random: Random) -> tuple[dict[str, Any], ...]:
    price = random.uniform(5.0, 100.0)
    traded = random.uniform(1e5, 2e7)
    quotes = []
    for day in range(DAYS):
        opened = price
        price = max(1.0, price * (1 + random.gauss(0.0, 0.02)))
        spread = abs(random.gauss(0.0, 0.01)) * price
        quotes.append(
            {
                "class": "STOCK",
                "symbol": symbol,
                "open": round(opened, 2),
                "high": round(max(opened, price) + spread, 2),
                "low": round(min(opened, price) - spread, 2),
                "close": round(price, 2),
                "volume": int(traded * random.lognormvariate(0.0, 0.4)),
                "date": day,
            }
        )
    return tuple(quotes)
