"""Topic specs: limits for all topics that match a pattern.

Always true of a spec: its numbers are finite and within their bounds, and its pattern is as short as the pattern of a
subscription.

If several specs match a topic, the most specific one applies, as a whole: fields of different specs are not mixed, so
one spec explains a topic. More specific is, in this order: a pattern without wildcards; the longer literal prefix;
more bytes beside the wildcards; the later one in byte order, which makes the choice deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from equipoise.content.attributes import AttributeSource
from equipoise.errors import SettingsError
from equipoise.limits.shares import BURST_MAX, RATE_MAX, RATE_MIN, Envelope, default_burst
from equipoise.model.glob import Glob

__all__ = ["Durability", "Retention", "Specs", "TopicSpec", "decode_spec", "encode_spec"]

# How long a message waits for admission by default: less than the time-outs of common Redis clients, after which some
# publish again. And the maximum: no client waits longer.
WAIT_MS, WAIT_MS_MAX = 1_000.0, 60_000.0
PATTERN_BYTES_MAX = 256
PATTERN_WILDCARDS_MAX = 8


class Durability(msgspec.Struct, frozen=True, array_like=True):
    """On how many bookies a message is stored: `write_quorum` of `ensemble` bookies, acknowledged by `ack_quorum`."""

    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.ack_quorum <= self.write_quorum <= self.ensemble:
            raise SettingsError(
                f"durability {self.ensemble}/{self.write_quorum}/{self.ack_quorum}: "
                "needs 1 ≤ ack quorum ≤ write quorum ≤ ensemble"
            )


class Retention(msgspec.Struct, frozen=True, array_like=True):
    """Which entries of a durable topic's log are kept. An entry is deleted as soon as one limit is exceeded. None: no
    limit.
    """

    age_s: float | None = None
    bytes_max: int | None = None
    # Until every durable subscriber and consumer group has acknowledged it.
    until_consumed: bool = False

    def __post_init__(self) -> None:
        if self.age_s is not None and not 1 <= self.age_s < math.inf:
            raise SettingsError(f"retention of {self.age_s:g} s: it must be at least a second")
        if self.bytes_max is not None and self.bytes_max < 1:
            raise SettingsError(f"retention of {self.bytes_max} bytes: it must be at least a byte")

    def __str__(self) -> str:
        parts = [] if self.age_s is None else [f"{self.age_s:g}s"]
        parts += [] if self.bytes_max is None else [f"{self.bytes_max}B"]
        return ",".join([*parts, "consumed"] if self.until_consumed else parts)


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=False):
    """Limits of the topics under one pattern. None: no limit, best effort. Unknown fields of a newer program are
    ignored.
    """

    pattern: bytes
    # From publish to delivery, for this quantile of messages.
    latency_ms: float | None = None
    quantile: float = 0.99
    # The envelope: at most rate·t + burst messages in any t seconds, over the whole cluster.
    rate_per_s: float | None = None
    burst_messages: int | None = None
    # How long a message may wait for admission before the hub refuses it.
    wait_ms: float | None = None
    durability: Durability | None = None
    # Of durable topics; None: entries are kept until a client removes them.
    retention: Retention | None = None
    # The site that must serve the topic.
    site: str | None = None
    # Where messages have the attributes that filters compare; None: the whole payload is a JSON object.
    attributes: AttributeSource | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.pattern) <= PATTERN_BYTES_MAX:
            raise SettingsError(f"a pattern has 1 to {PATTERN_BYTES_MAX} bytes, this one {len(self.pattern)}")
        if Glob(self.pattern).wildcards > PATTERN_WILDCARDS_MAX:
            raise SettingsError(f"pattern {self.pattern!r}: use at most {PATTERN_WILDCARDS_MAX} wildcards")
        if self.latency_ms is not None and not 0 < self.latency_ms < math.inf:
            raise SettingsError(f"latency {self.latency_ms} ms: it must be above 0")
        if not 0 < self.quantile < 1:
            raise SettingsError(f"quantile {self.quantile}: it must be between 0 and 1, such as 0.99")
        self._check_envelope()
        if self.retention is not None and self.durability is None:
            raise SettingsError(f"retain {self.retention}: it needs durability, such as --durable 3/3/2")
        if self.site == "":
            raise SettingsError("site is empty: name one, or leave it out")

    def _check_envelope(self) -> None:
        rate, burst, wait = self.rate_per_s, self.burst_messages, self.wait_ms
        # Written so that NaN fails, too.
        if rate is not None and not RATE_MIN <= rate <= RATE_MAX:
            raise SettingsError(
                f"rate {rate:.15g}/s: it must be between {RATE_MIN:g} and {RATE_MAX:.0f} messages per second"
            )
        if burst is not None and not 1 <= burst <= BURST_MAX:
            raise SettingsError(f"burst {burst}: it must be between 1 and {BURST_MAX} messages")
        if wait is not None and not 0 <= wait <= WAIT_MS_MAX:
            raise SettingsError(f"wait {wait:g} ms: it must be between 0 and {WAIT_MS_MAX:.0f} ms")
        if rate is None and burst is not None:
            raise SettingsError(f"burst {burst}: it needs a rate, such as --rate 100/s")
        if rate is None and wait is not None:
            raise SettingsError(f"wait {wait:g} ms: it needs a rate, such as --rate 100/s")

    @property
    def envelope(self) -> Envelope | None:
        """At most rate·t + burst messages in any t seconds; None: no limit."""
        if self.rate_per_s is None:
            return None
        return Envelope(self.rate_per_s, self.burst_messages or default_burst(self.rate_per_s))

    @property
    def wait_s(self) -> float:
        """How long a message may wait for admission."""
        return (WAIT_MS if self.wait_ms is None else self.wait_ms) / 1e3


class Specs:
    """All specs. Immutable; `of` returns the spec of a topic."""

    __slots__ = ("_exact", "_ranked", "all")

    def __init__(self, specs: Iterable[TopicSpec] = ()) -> None:
        self._exact: dict[bytes, TopicSpec] = {}
        ranked: list[tuple[tuple[int, int, bytes], Glob, TopicSpec]] = []
        for pattern, spec in sorted({spec.pattern: spec for spec in specs}.items()):
            glob = Glob(pattern)
            if glob.wildcards == 0:
                # Without wildcards the prefix is the whole name, with escapes resolved.
                self._exact[glob.prefix] = spec
            else:
                ranked.append(((len(glob.prefix), len(pattern) - glob.wildcards, pattern), glob, spec))
        ranked.sort(key=lambda item: item[0], reverse=True)
        self._ranked = [(glob, spec) for _, glob, spec in ranked]
        # The most specific first.
        self.all = (*self._exact.values(), *(spec for _, spec in self._ranked))

    def of(self, topic: bytes) -> TopicSpec | None:
        """The most specific spec that matches; None: best effort. Callers cache the result per topic."""
        exact = self._exact.get(topic)
        if exact is not None or not self._ranked:
            return exact
        return next((spec for glob, spec in self._ranked if glob.matches(topic)), None)

    def __iter__(self) -> Iterator[TopicSpec]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)


_decoder = msgspec.msgpack.Decoder(TopicSpec)
_encoder = msgspec.msgpack.Encoder()


def encode_spec(spec: TopicSpec) -> bytes:
    return _encoder.encode(spec)


def decode_spec(data: bytes) -> TopicSpec:
    """Raises SettingsError if the bytes are not a spec."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(f"not a topic spec: {problem}") from problem
