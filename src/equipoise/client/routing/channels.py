"""The local subscriptions, by channel, and the link that serves each.

A topic is subscribed at its home, if that is known and reachable, else at the base; a pattern always at the base, whose
hub receives from all others. If the serving hub refuses a name, or revokes it, the subscriptions to the name end.

Always true: a name is in the table exactly while a local subscription uses it, and then a link serves it, or will once
it is up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from equipoise.client.routing.channel import AnyChannel, Listener, PatternChannel, TopicChannel
from equipoise.client.routing.routes import SubscribeTarget
from equipoise.client.settings import ClientSettings
from equipoise.client.wire.codec import decode_name
from equipoise.client.wire.link import Link
from equipoise.client.wire.link_subscription import AnySubscription, LinkSubscription, TopicSubscription
from equipoise.errors import DeniedError, EquipoiseError, RefusedError
from equipoise.stream.sources import MergedStreams

# Ended subscriptions whose positions are kept: half a kilobyte each.
BOOKMARKS_MAX = 1_000


class Channels:
    """Owned by one bus. `link_for` returns the link of a topic at its first subscription."""

    def __init__(self, settings: ClientSettings, link_for: Callable[[bytes], Link], base: Link) -> None:
        self._pattern_topics_max = settings.pattern_topics_max
        self._merge_bytes_max = settings.merge_bytes_max
        self._link_for = link_for
        self._base = base
        # Subscriptions by name; those with filters, by topic and filter; and the number of the latter so far.
        self._topics: dict[bytes, TopicChannel] = {}
        self._filtered: dict[bytes, dict[bytes, TopicChannel]] = {}
        self._filters_made = 0
        self._patterns: dict[bytes, PatternChannel] = {}
        # By topic and filter, the positions of ended subscriptions, the latest last: the next one may begin at a hub
        # that lags behind them.
        self._bookmarks: dict[tuple[bytes, bytes], MergedStreams] = {}
        # The error of later subscriptions, once subscribing has ended.
        self._end: EquipoiseError | None = None

    @property
    def topics(self) -> dict[bytes, None]:
        """The subscribed topics, whole or by filters."""
        return dict.fromkeys((*self._topics, *self._filtered))

    def __contains__(self, topic: bytes) -> bool:
        return topic in self._topics or topic in self._filtered

    def of(self, topic: bytes) -> list[TopicChannel]:
        """The subscriptions to a topic."""
        whole, filtered = self._topics.get(topic), self._filtered.get(topic, {})
        return [*(() if whole is None else (whole,)), *filtered.values()]

    def each_topic(self) -> list[TopicChannel]:
        return [channel for topic in self.topics for channel in self.of(topic)]

    # Calls of local subscriptions.

    def want(self, name: bytes, listener: Listener, *, is_pattern: bool, where: bytes = b"") -> None:
        """`where`: a filter of the topic's messages; empty: all."""
        if self._end is not None:
            raise self._end.with_traceback(None)
        channel = self._find(name, where, is_pattern=is_pattern)
        if channel is not None:
            channel.add(listener)
        elif is_pattern:
            pattern = self._patterns[name] = PatternChannel(name, self._pattern_topics_max)
            pattern.add(listener)
            self._base.subscriptions.want_pattern(pattern)
        else:
            self._filters_made += bool(where)
            bookmark = self._bookmarks.pop((name, where), None)
            topic = TopicChannel(name, self._merge_bytes_max, where, self._filters_made, bookmark)
            if where:
                self._filtered.setdefault(name, {})[where] = topic
            else:
                self._topics[name] = topic
            topic.add(listener)
            self.subscribe_at(topic, [SubscribeTarget(self._link_for(name))])

    def leave(self, name: bytes, listener: Listener, *, is_pattern: bool, where: bytes = b"") -> None:
        """Without effect if the listener has already left or has ended."""
        channel = self._find(name, where, is_pattern=is_pattern)
        if channel is None or channel.listeners.pop(listener, None) is None or channel.listeners:
            return
        self._remove(channel)
        self._give_up(channel)

    def _give_up(self, channel: AnyChannel) -> None:
        """No local subscription uses it any more: end it at every link that serves it."""
        if isinstance(channel, PatternChannel):
            self._base.subscriptions.want_pattern(channel).leave()
            return
        for source in list(channel.merge.sources):
            source.leave()

    def _find(self, name: bytes, where: bytes, *, is_pattern: bool) -> AnyChannel | None:
        if is_pattern:
            return self._patterns.get(name)
        return self._filtered.get(name, {}).get(where) if where else self._topics.get(name)

    def _remove(self, channel: AnyChannel) -> None:
        if isinstance(channel, PatternChannel):
            del self._patterns[channel.name]
            return
        self._bookmarks[channel.key] = channel.merge.streams.bookmark()
        if len(self._bookmarks) > BOOKMARKS_MAX:
            del self._bookmarks[next(iter(self._bookmarks))]
        if not channel.where:
            del self._topics[channel.name]
        else:
            filtered = self._filtered[channel.name]
            del filtered[channel.where]
            if not filtered:
                del self._filtered[channel.name]

    # Events of the routing.

    def subscribe_at(self, channel: TopicChannel, targets: Sequence[SubscribeTarget]) -> None:
        """Subscribe to the topic over these links; the present ones are left once these send everything."""
        channel.merge.want(
            [
                link.subscriptions.want(channel, is_own=is_own, elsewhere=elsewhere)
                for link, is_own, elsewhere in targets
            ]
        )

    def is_whole_at(self, channel: TopicChannel, link: Link) -> bool:
        """Whether this link serves all of the topic, or is about to."""
        wanted = [source for source in channel.merge.wanted if isinstance(source, LinkSubscription)]
        return [(source.table, source.is_own) for source in wanted] == [(link.subscriptions, False)]

    def on_down(self, link: Link) -> None:
        """The base is down. Its topics wait for it, unless they were about to leave it."""
        for source in link.subscriptions.topics():
            merge = source.channel.merge
            if source in merge.wanted:
                merge.paused(source)
            else:
                source.leave()
                merge.lost(source)
        for subscription in link.subscriptions.patterns():
            subscription.channel.on_down()

    def on_over(self, link: Link) -> None:
        """A home's link has ended: the base serves its topics, which other hubs relay."""
        for source in link.subscriptions.topics():
            self._lose(source)

    def _lose(self, source: TopicSubscription) -> None:
        channel = source.channel
        was_wanted = source in channel.merge.wanted
        channel.merge.lost(source)
        if was_wanted:
            # A source that already sends everything is as good as the base.
            rest = [other for other in channel.merge.sources if other.is_live and not other.is_own]
            if rest:
                channel.merge.want(rest[:1])
            else:
                self.subscribe_at(channel, [SubscribeTarget(self._base)])

    def on_refused(self, subscription: AnySubscription, error: RefusedError | None) -> None:
        """A hub refuses the name, or has revoked it; it may be one of several serving hubs."""
        channel = subscription.channel
        if isinstance(channel, TopicChannel) and any(
            other is not subscription for other in channel.merge.sources
        ):
            self._lose(subscription)
        else:
            self._end_channel(channel, error or _revoked(channel.name))

    def end(self, error: EquipoiseError, *, is_clean: bool) -> None:
        """End every subscription, with the error unless this is clean; refuse new ones with it."""
        self._end = error
        channels: list[AnyChannel] = [*self.each_topic(), *self._patterns.values()]
        for channel in channels:
            self._end_channel(channel, None if is_clean else error)

    def _end_channel(self, channel: AnyChannel, error: EquipoiseError | None) -> None:
        where = b"" if isinstance(channel, PatternChannel) else channel.where
        if self._find(channel.name, where, is_pattern=channel.is_pattern) is channel:
            self._remove(channel)
            self._give_up(channel)
        listeners, channel.listeners = channel.listeners, {}
        for listener in listeners:
            listener.on_end(error)


def _revoked(name: bytes) -> DeniedError:
    return DeniedError(
        f"NOPERM the hub ended the subscription to {decode_name(name)!r}: the permission was revoked; ask "
        "the operator of the hub to allow it in the hub's users file, or log in as another user"
    )
