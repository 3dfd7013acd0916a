"""Merging a topic from several sources: each position once, in order, in any order of arrival."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

import pytest

from equipoise.stream.merge import TopicMerge
from equipoise.stream.parts import FilteredRun
from equipoise.stream.position import TRUNK

LANE = b"h2"


class Source:
    """A subscription that notes that it was left."""

    def __init__(self, name: str = "", *, is_own: bool = False, left_out: tuple[bytes, ...] = ()) -> None:
        self.name = name
        self.is_own = is_own
        self.is_live = True
        self.left_out = set(left_out)
        self.left = 0

    @property
    def is_left(self) -> bool:
        return self.left > 0

    def leave(self) -> None:
        self.left += 1
        self.is_live = False


class Sink:
    """Notes what a channel would pass on: payloads, and gaps as numbers or None."""

    def __init__(self) -> None:
        self.taken: list[bytes | int | None] = []
        self.downs = 0
        self.is_live = False

    def on_down(self) -> None:
        self.downs += 1
        self.is_live = False

    def on_live(self, missed: int | None) -> None:
        self.is_live = True
        if missed != 0:
            self.taken.append(missed)

    def on_messages(self, epoch: int, n: int, payloads: Sequence[bytes], missed: int | None) -> None:
        if missed != 0:
            self.taken.append(missed)
        self.taken += payloads


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


class Topic:
    """A merged topic that is whole at one source, whose trunk stands at (1, 0)."""

    def __init__(self, bytes_max: int = 1_000) -> None:
        self.sink = Sink()
        self.merge = TopicMerge(self.sink, bytes_max)
        self.old = Source("old")
        self.merge.want([self.old])
        self.merge.begin(self.old, TRUNK, 1, 0)

    def send(self, source: Source, n: int, text: str, *, epoch: int = 1, stream: bytes = TRUNK) -> None:
        self.merge.receive(source, stream, epoch, n, words(text))

    def change(self, *, at: tuple[int, int] | None = None) -> Source:
        """Go to a new source, which has answered if it says where."""
        new = Source("new")
        self.merge.want([new])
        if at is not None:
            self.merge.begin(new, TRUNK, *at)
            self.merge.greeted(new)
        return new

    @property
    def taken(self) -> str:
        return " ".join(item.decode() if isinstance(item, bytes) else f"<{item}>" for item in self.sink.taken)


def test_the_old_seat_is_kept_until_the_new_one_is_caught_up() -> None:
    topic = Topic()
    new = topic.change()
    topic.send(topic.old, 1, "a b")
    assert topic.old.left == 0, "the new one has not answered"
    topic.merge.begin(new, TRUNK, 1, 4)
    topic.merge.greeted(new)
    topic.send(new, 5, "e")
    topic.send(topic.old, 3, "c")
    assert topic.old.left == 0
    topic.send(topic.old, 4, "d")
    assert topic.old.left == 1
    topic.send(new, 6, "f")
    assert topic.taken == "a b c d e f"
    assert topic.sink.downs == 0


def test_a_new_seat_that_lags_is_caught_up_at_once_and_repeats_nothing() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a b c")
    new = topic.change(at=(1, 1))
    assert topic.old.left == 1
    topic.send(new, 2, "b c d")
    assert topic.taken == "a b c d"


def test_an_old_seat_that_is_lost_while_the_new_one_is_ahead_leaves_a_counted_gap() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a")
    new = topic.change(at=(1, 4))
    topic.send(new, 5, "e")
    topic.merge.lost(topic.old)
    topic.send(new, 6, "f")
    assert topic.taken == "a <3> e f"
    assert topic.sink.is_live


def test_a_new_seat_that_is_lost_changes_nothing() -> None:
    topic = Topic()
    new = topic.change(at=(1, 9))
    topic.send(new, 10, "j")
    topic.merge.lost(new)
    topic.merge.want([topic.old])
    topic.send(topic.old, 1, "a b")
    assert topic.taken == "a b"
    assert (topic.sink.downs, topic.old.is_left) == (0, False)


def test_a_move_into_a_new_epoch_is_no_gap_whichever_source_announces_it_first() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a")
    new = topic.change(at=(2, 1))
    topic.send(new, 2, "d", epoch=2)
    topic.send(topic.old, 2, "b")
    topic.merge.opened(topic.old, 2, 1, 2)
    topic.send(topic.old, 1, "c", epoch=2)
    assert topic.old.left == 1
    assert topic.taken == "a b c d"


def test_waiting_messages_are_bounded_and_beyond_the_limit_the_new_seat_is_used_with_a_gap() -> None:
    topic = Topic(bytes_max=4)
    topic.send(topic.old, 1, "a")
    new = topic.change(at=(1, 3))
    topic.send(new, 4, "dd")
    topic.send(new, 5, "ee")
    assert topic.taken == "a", "within the bound"
    topic.send(new, 6, "f")
    assert topic.taken == "a <2> dd ee f"
    assert topic.old.left == 1


def test_the_wait_for_a_seat_is_bounded() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a")
    new = topic.change(at=(1, 3))
    topic.send(new, 4, "d")
    assert topic.merge.awaits is not None
    topic.merge.give_up_waiting()
    assert topic.taken == "a <2> d"
    assert topic.old.left == 1
    assert topic.merge.awaits is None


def test_a_seat_with_a_backlog_that_still_brings_messages_is_waited_for() -> None:
    """Balancing moved subscribers off an overloaded edge: each lost what that edge brought after ten seconds."""
    topic = Topic()
    new = topic.change(at=(1, 3))
    topic.send(new, 4, "d")
    awaited = topic.merge.awaits
    topic.send(new, 5, "e")
    assert topic.merge.awaits == awaited, "what the new seat brings does not count"
    topic.send(topic.old, 1, "a")
    assert topic.merge.awaits not in (awaited, None)


def test_a_seat_that_does_not_reply_is_not_used_early() -> None:
    topic = Topic()
    topic.change()
    topic.merge.give_up_waiting()
    topic.send(topic.old, 1, "a")
    assert (topic.taken, topic.old.is_left) == ("a", False)


def test_a_single_seat_that_returns_shows_missed_messages() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a")
    topic.merge.paused(topic.old)
    assert topic.sink.downs == 1
    topic.merge.begin(topic.old, TRUNK, 1, 4)
    topic.send(topic.old, 5, "e")
    assert topic.taken == "a <3> e"


def test_a_hub_that_lags_by_an_epoch_is_waited_for_and_accepted_in_the_end() -> None:
    topic = Topic()
    topic.merge.paused(topic.old)
    topic.merge.begin(topic.old, TRUNK, 7, 0)
    topic.send(topic.old, 1, "a", epoch=7)
    topic.merge.paused(topic.old)
    topic.merge.begin(topic.old, TRUNK, 5, 3)
    topic.send(topic.old, 4, "old", epoch=5)
    assert topic.taken == "<None> a"
    topic.merge.give_up_waiting()
    topic.send(topic.old, 5, "b", epoch=5)
    assert topic.taken == "<None> a <None> <1> b"


def test_lanes_have_positions_of_their_own() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.send(topic.old, 1, "a")
    topic.send(topic.old, 1, "x", epoch=3, stream=LANE)
    topic.send(topic.old, 2, "b")
    topic.send(topic.old, 4, "z", epoch=3, stream=LANE)
    assert topic.taken == "a x b <2> z"


def test_messages_after_a_mark_wait_for_the_other_stream() -> None:
    topic = Topic()
    home = Source("home", is_own=True)
    topic.merge.want([topic.old, home])
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.merge.begin(home, LANE, 3, 0)
    topic.merge.greeted(home)
    topic.merge.depends(home, LANE, TRUNK, 1, 2)
    topic.send(home, 1, "after b", epoch=3, stream=LANE)
    topic.send(topic.old, 1, "a")
    assert topic.taken == "a"
    topic.send(topic.old, 2, "b")
    assert topic.taken == "a b after b"


def test_a_mark_does_not_wait_for_a_stream_that_is_over() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.merge.depends(topic.old, TRUNK, LANE, 3, 5)
    topic.send(topic.old, 1, "a")
    assert topic.taken == ""
    topic.merge.ended(topic.old, LANE, 3, 0)
    assert topic.taken == "a"


def test_a_lane_that_ends_and_begins_again_is_another() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.send(topic.old, 1, "x", epoch=3, stream=LANE)
    topic.merge.ended(topic.old, LANE, 3, 1)
    topic.merge.begin(topic.old, LANE, 4, 0)
    topic.send(topic.old, 1, "y", epoch=4, stream=LANE)
    assert topic.taken == "x y"


def test_an_end_that_waits_lets_the_next_lane_of_its_name_wait_behind_it() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.merge.depends(topic.old, LANE, TRUNK, 1, 1)
    topic.send(topic.old, 1, "x", epoch=3, stream=LANE)
    topic.merge.ended(topic.old, LANE, 3, 1)
    topic.merge.begin(topic.old, LANE, 4, 0)
    topic.send(topic.old, 1, "y", epoch=4, stream=LANE)
    assert topic.taken == ""
    topic.send(topic.old, 1, "a")
    assert topic.taken == "a x y"


def test_a_hub_that_lags_does_not_bring_back_a_lane_that_is_over() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.send(topic.old, 1, "x y", epoch=3, stream=LANE)
    topic.merge.ended(topic.old, LANE, 3, 2)
    new = topic.change(at=(1, 0))
    topic.merge.begin(new, LANE, 3, 1)
    topic.send(new, 2, "y", epoch=3, stream=LANE)
    assert topic.taken == "x y"


def test_a_lane_whose_hub_died_is_a_gap_of_unknown_size() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.merge.ended(topic.old, LANE, 0, 0)
    assert topic.taken == "<None>"


def test_a_lane_that_ends_in_a_later_epoch_is_over_behind_a_gap_of_unknown_size() -> None:
    """A hub died that may have had messages for the lane, so that it went on in another epoch, and none came."""
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.send(topic.old, 1, "x", epoch=3, stream=LANE)
    topic.merge.depends(topic.old, TRUNK, LANE, 3, 5)
    topic.send(topic.old, 1, "a")
    topic.merge.ended(topic.old, LANE, 4, 0)
    assert topic.taken == "x <None> a"


def test_a_lane_that_a_hub_with_everything_does_not_know_is_over() -> None:
    topic = Topic()
    home = Source("home", is_own=True)
    topic.merge.want([topic.old, home])
    topic.merge.begin(home, LANE, 3, 0)
    topic.merge.lost(home)
    topic.merge.greeted(topic.old)
    assert topic.taken == "<None>"


def test_a_lane_that_a_hub_that_lags_does_not_name_goes_on_where_it_stood() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, LANE, 5, 0)
    topic.merge.greeted(topic.old)
    topic.send(topic.old, 1, "a b", epoch=5, stream=LANE)
    topic.merge.paused(topic.old)
    topic.merge.begin(topic.old, TRUNK, 1, 0)
    topic.merge.greeted(topic.old)
    # The hub that answered had not heard of the lane.
    topic.merge.begin(topic.old, LANE, 5, 1)
    topic.send(topic.old, 2, "b c", epoch=5, stream=LANE)
    assert topic.taken == "a b <None> c"


def test_a_lane_that_only_the_new_seat_knows_is_brought_from_its_beginning_by_the_old() -> None:
    topic = Topic()
    new = Source("new")
    topic.merge.want([new])
    topic.merge.begin(new, TRUNK, 1, 0)
    topic.merge.begin(new, LANE, 3, 2)
    topic.merge.greeted(new)
    topic.send(new, 3, "z", epoch=3, stream=LANE)
    assert topic.old.left == 0, "it lags, and has yet to say that the lane began"
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.send(topic.old, 1, "x y", epoch=3, stream=LANE)
    assert topic.old.left == 1
    assert topic.taken == "x y z"


def test_sources_keep_the_order_in_which_they_were_requested() -> None:
    """Later they are left in this order, on several links: an order by memory addresses differs between runs."""
    homes = [Source(f"h{number}") for number in range(5)]
    for asked in (homes, homes[::-1]):
        topic = Topic()
        topic.merge.want(asked)
        assert list(topic.merge.wanted) == asked
        assert list(topic.merge.sources) == [topic.old, *asked]


def test_a_seat_that_leaves_a_lane_out_is_not_awaited_for_it() -> None:
    """A subscriber that comes to a topic with lanes.

    1. It asks one hub for everything, is told of the homes, and asks each for its own.
    2. h3 answers first: it leaves out the lane of h2, which has 320 messages by then.
    3. The first hub replies: it sends that lane from 321 on, then h2 from 322 on. No hub will send the 320.
    """
    sink = Sink()
    merge = TopicMerge(sink, 1_000)
    whole, h3, h2 = Source("whole"), Source("h3", is_own=True), Source("h2", is_own=True)
    h3.left_out, h2.left_out = {TRUNK, LANE}, {TRUNK, b"h3"}
    for source in (whole, h3, h2):
        source.is_live = False
    merge.want([whole])
    merge.want([h3, h2])
    h3.is_live = True
    merge.begin(h3, b"h3", 3, 252)
    merge.greeted(h3)
    whole.is_live = True
    merge.begin(whole, TRUNK, 1, 510)
    merge.begin(whole, LANE, 3, 320)
    merge.begin(whole, b"h3", 3, 252)
    merge.receive(whole, LANE, 3, 321, [b"x"])
    h2.is_live = True
    merge.begin(h2, LANE, 3, 321)
    assert sink.taken == [b"x"]


def test_a_lane_is_awaited_from_a_seat_that_has_answered_but_not_named_its_streams() -> None:
    sink = Sink()
    merge = TopicMerge(sink, 1_000)
    whole, home = Source("whole"), Source("home", is_own=True)
    merge.want([whole, home])
    merge.begin(whole, TRUNK, 1, 0)
    merge.begin(home, LANE, 3, 9)
    merge.receive(home, LANE, 3, 10, [b"j"])
    assert sink.taken == [], "the other may name the lane from an earlier position on"
    merge.begin(whole, LANE, 3, 8)
    merge.receive(whole, LANE, 3, 9, [b"i"])
    assert sink.taken == [b"i", b"j"]


def test_a_lane_that_was_awaited_from_a_seat_that_is_lost_is_a_counted_gap() -> None:
    topic = Topic()
    topic.merge.greeted(topic.old)
    home = Source("home", is_own=True, left_out=(TRUNK,))
    topic.merge.want([topic.old, home])
    topic.merge.begin(home, LANE, 3, 2)
    topic.send(home, 3, "z", epoch=3, stream=LANE)
    assert topic.taken == ""
    topic.merge.lost(topic.old)
    assert topic.taken == "<2> z"


def test_a_lane_that_began_while_nothing_could_come_is_a_counted_gap() -> None:
    topic = Topic()
    topic.merge.greeted(topic.old)
    topic.send(topic.old, 1, "a")
    topic.merge.paused(topic.old)
    topic.merge.begin(topic.old, TRUNK, 1, 1)
    topic.merge.begin(topic.old, LANE, 3, 47)
    topic.send(topic.old, 48, "x", epoch=3, stream=LANE)
    assert topic.taken == "a <47> x"


def test_a_lane_that_began_while_the_only_seat_was_away_is_a_gap_of_unknown_size() -> None:
    """A hub that does not say that it has named all streams: then it is not known when the lane began."""
    topic = Topic()
    topic.send(topic.old, 1, "a")
    topic.merge.paused(topic.old)
    topic.merge.begin(topic.old, TRUNK, 1, 1)
    topic.merge.begin(topic.old, LANE, 5, 8)
    topic.send(topic.old, 9, "b", epoch=5, stream=LANE)
    assert topic.sink.taken == [b"a", None, b"b"]


def test_a_lane_whose_hub_is_dead_ends_once_no_seat_sends_it() -> None:
    topic = Topic()
    home = Source("home", is_own=True, left_out=(TRUNK,))
    rest = Source("rest", is_own=True, left_out=(LANE,))
    topic.merge.want([home, rest])
    topic.merge.begin(home, LANE, 3, 0)
    topic.merge.begin(rest, TRUNK, 1, 0)
    topic.merge.depends(rest, TRUNK, LANE, 3, 1)
    topic.send(rest, 1, "after the lane")
    topic.merge.ended(rest, LANE, 0, 0)
    assert topic.taken == "", "what the dead hub had sent may still come"
    topic.merge.lost(home)
    assert topic.taken == "<None> after the lane"


def spread() -> tuple[Topic, Source, Source]:
    """A topic that is taken from its homes: the trunk from one, everything but the trunk from the other."""
    topic = Topic()
    first, rest = Source("h1", is_own=True, left_out=(LANE,)), Source("rest", is_own=True, left_out=(TRUNK,))
    topic.merge.begin(topic.old, LANE, 1, 0)
    topic.merge.greeted(topic.old)
    topic.merge.want([first, rest])
    topic.merge.begin(first, TRUNK, 1, 0)
    topic.merge.begin(rest, LANE, 1, 0)
    for source in (first, rest):
        topic.merge.greeted(source)
    assert topic.old.left
    return topic, first, rest


def test_a_lane_that_ended_while_the_seat_that_brings_the_rest_was_away_is_a_gap_of_unknown_size() -> None:
    """The other seat had left it out, so its hub says nothing of the end; what depends on the lane goes on."""
    topic, first, rest = spread()
    topic.send(rest, 1, "a", stream=LANE)
    topic.merge.paused(rest)
    topic.merge.depends(first, TRUNK, LANE, 1, 5)
    topic.send(first, 1, "b")
    topic.merge.greeted(rest)
    assert topic.taken == "a <None> b"


def test_a_lane_is_not_over_while_a_seat_that_may_bring_it_is_away() -> None:
    topic, first, rest = spread()
    topic.send(rest, 1, "a", stream=LANE)
    topic.merge.paused(rest)
    first.left_out.clear()
    topic.merge.greeted(first)
    assert topic.taken == "a"
    assert LANE in topic.merge.streams


def test_messages_after_a_lane_that_no_seat_has_named_yet_wait_for_it() -> None:
    """
    1. The whole topic comes over a slow link. The trunk's home is asked for the trunk, and leaves a lane out.
    2. It brings a message that comes after one of the lane, before the slow link names the lane.
    """
    topic = Topic()
    topic.merge.greeted(topic.old)
    own = Source("h1", is_own=True, left_out=(LANE,))
    topic.merge.want([topic.old, own])
    topic.merge.begin(own, TRUNK, 1, 0)
    topic.merge.depends(own, TRUNK, LANE, 1, 1)
    topic.merge.greeted(own)
    topic.send(own, 1, "b")
    assert topic.taken == ""
    topic.merge.begin(topic.old, LANE, 1, 0)
    topic.send(topic.old, 1, "a", stream=LANE)
    assert topic.taken == "a b"


@pytest.mark.parametrize("is_full", [False, True])
def test_a_lane_that_no_seat_ever_names_is_waited_for_only_so_long(*, is_full: bool) -> None:
    topic = Topic(bytes_max=1_000)
    topic.merge.greeted(topic.old)
    own = Source("h1", is_own=True, left_out=(LANE,))
    topic.merge.want([topic.old, own])
    topic.merge.begin(own, TRUNK, 1, 0)
    topic.merge.depends(own, TRUNK, LANE, 1, 1)
    topic.send(own, 1, "x" * (1_001 if is_full else 1))
    assert topic.merge.awaits is None if is_full else topic.merge.awaits is not None
    topic.merge.give_up_waiting()
    assert topic.taken.startswith("x")


def test_waiting_messages_behind_the_end_of_a_lane_are_bounded() -> None:
    """1. The end of a lane waits for the trunk, and messages of the next lane behind it, more than may wait.

    2. The trunk is passed over, the lane ends, and what was behind it becomes the next one while all this is settled.
    """
    topic = Topic(bytes_max=4)
    topic.merge.begin(topic.old, LANE, 3, 0)
    topic.merge.depends(topic.old, LANE, TRUNK, 1, 1)
    topic.merge.ended(topic.old, LANE, 3, 0)
    topic.merge.begin(topic.old, LANE, 4, 0)
    topic.send(topic.old, 1, "xxx", epoch=4, stream=LANE)
    assert topic.taken == ""
    topic.send(topic.old, 2, "yy", epoch=4, stream=LANE)
    assert topic.taken == "<1> xxx yy"
    assert topic.merge.awaits is None


def test_a_lane_that_is_there_when_the_first_seat_is_taken_is_no_gap() -> None:
    sink = Sink()
    merge, source = TopicMerge(sink, 1_000), Source()
    merge.want([source])
    merge.begin(source, TRUNK, 1, 40)
    merge.begin(source, LANE, 3, 7)
    merge.receive(source, LANE, 3, 8, [b"x"])
    assert sink.taken == [b"x"]


@pytest.mark.parametrize("seed", range(300))
def test_at_any_pace_of_the_seats_every_message_is_delivered_once_and_in_order(seed: int) -> None:
    """Two streams; sources come, lag, are ahead and go, each in an order of its own between the streams."""
    rng = random.Random(seed)
    length = 60
    sink = Sink()
    merge = TopicMerge(sink, 1 << 20)
    made = {TRUNK: 0, LANE: 0}
    sources: dict[Source, dict[bytes, int]] = {}
    queues: dict[Source, deque[tuple[bytes, int]]] = {}

    def join() -> Source:
        source = Source()
        merge.want([source])
        sources[source], queues[source] = dict(made), deque()
        merge.begin(source, TRUNK, 1, made[TRUNK])
        merge.begin(source, LANE, 1, made[LANE])
        merge.greeted(source)
        return source

    latest = join()
    order: list[bytes] = []
    while len(order) < length or any(queue for source, queue in queues.items() if not source.is_left):
        match rng.randrange(10):
            case 0 if len(order) < length and not merge.is_changing:
                latest = join()
            case 1 | 2 | 3 if len(order) < length:
                stream = rng.choice([TRUNK, LANE])
                made[stream] += 1
                order.append(stream)
                for queue in queues.values():
                    queue.append((stream, made[stream]))
            case _:
                source = rng.choice(list(queues))
                if queues[source] and not source.is_left:
                    stream, n = queues[source].popleft()
                    merge.receive(source, stream, 1, n, [b"%b%d" % (stream or b"t", n)])
    for stream in (TRUNK, LANE):
        prefix = stream or b"t"
        got = [item for item in sink.taken if isinstance(item, bytes) and item.startswith(prefix)]
        assert got == [b"%b%d" % (prefix, n + 1) for n in range(made[stream])]
    assert len(sink.taken) == length
    assert sink.downs == 0
    assert [source for source in sources if not source.is_left] == [latest]
    assert all(source.left <= 1 for source in sources)


def back(topic: Topic, epoch: int, n: int) -> tuple[Sink, TopicMerge, Source]:
    """The subscriber of the topic has left and comes to another hub, whose trunk stands at (epoch, n)."""
    sink, source = Sink(), Source()
    merge = TopicMerge(sink, 1_000, topic.merge.streams.bookmark())
    merge.want([source])
    merge.begin(source, TRUNK, epoch, n)
    merge.greeted(source)
    assert sink.is_live
    return sink, merge, source


def test_a_client_that_returns_to_a_hub_that_lags_gets_no_repeated_message() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a b c")
    sink, merge, source = back(topic, 1, 1)
    merge.receive(source, TRUNK, 1, 2, words("b"))
    merge.receive_run(source, TRUNK, FilteredRun(1, 3, 3, (0, 2), words("c e")))
    assert sink.taken == [b"e"]


def test_a_client_that_returns_to_a_hub_that_is_ahead_has_missed_no_requested_message() -> None:
    topic = Topic()
    topic.send(topic.old, 1, "a b c")
    sink, merge, source = back(topic, 1, 7)
    merge.receive(source, TRUNK, 1, 8, words("h"))
    assert sink.taken == [b"h"]


def test_a_client_that_returns_to_a_hub_that_lags_by_an_epoch_waits_for_a_limited_time() -> None:
    topic = Topic()
    topic.merge.opened(topic.old, 2, 1, 0)
    topic.send(topic.old, 1, "a b", epoch=2)
    sink, merge, source = back(topic, 1, 0)
    merge.opened(source, 2, 1, 0)
    merge.receive(source, TRUNK, 2, 1, words("a b c"))
    assert sink.taken == [b"c"]
    # One whose epochs are lower for good.
    sink, merge, source = back(topic, 1, 0)
    merge.receive(source, TRUNK, 1, 1, words("x"))
    assert sink.taken == []
    assert merge.awaits is not None
    merge.give_up_waiting()
    merge.receive(source, TRUNK, 1, 2, words("y"))
    assert sink.taken == [None, 1, b"y"]


def test_lanes_that_a_returning_client_has_had_are_not_repeated() -> None:
    topic = Topic()
    topic.merge.begin(topic.old, b"l1", 1, 0)
    topic.merge.begin(topic.old, b"l2", 1, 0)
    topic.merge.greeted(topic.old)
    topic.send(topic.old, 1, "a b", stream=b"l1")
    topic.send(topic.old, 1, "c", stream=b"l2")
    topic.merge.ended(topic.old, b"l2", 1, 1)
    sink, merge, source = back(topic, 1, 0)
    for lane in (b"l1", b"l2"):
        merge.begin(source, lane, 1, 0)
    merge.receive(source, b"l1", 1, 1, words("a b d"))
    merge.receive(source, b"l2", 1, 1, words("c"))
    assert sink.taken == [b"d"]
