"""Merge the streams of a topic from several sources, and switch sources without loss or duplicates.

A topic has a trunk and, where it is replicated for many publishers, lanes beside it: streams with positions of their
own. Each is received from one or more *sources*. A source is a subscription to the topic over one link: to all of its
streams, or to those that the link's hub numbers itself. A source's confirmation gives the position from which it sends
a stream. Once the stream has reached that position here, the source has *caught up*: its messages continue the stream,
and duplicates are skipped. Until then its messages wait. So to change links, the client adds a source, waits until it
has caught up with every stream, and leaves the former one: there is always a live subscription, without a gap.

Order between streams is kept by dependencies: messages after a dependency in one stream follow the position in another
stream that it names. A hub orders its own pushes; but two streams may come from two hubs, so the dependent one waits.

A lane begins at its hub when every other hub follows it. So an earlier source sends a lane from its first message on,
unless it had left it out; and a lane that one source has announced and another has not is *awaited* from the other,
even if the first has sent parts of it.

If the only source that had caught up is lost, a source that is ahead is used at once, and the messages between are a
gap. The same happens when the waiting parts exceed the limit, or wait too long.

Always true: at most `bytes_max` bytes wait; positions of a stream are delivered in increasing order, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from equipoise.stream.cursor import IN_ORDER, Cursor, Verdict
from equipoise.stream.parts import Begun, Dependency, Ended, FilteredRun, Messages, Opened, Part
from equipoise.stream.position import TRUNK
from equipoise.stream.sources import Intake, MergedStream, MergedStreams, Sink, Source, WaitingParts

__all__ = ["TopicMerge"]


class TopicMerge:
    """One topic at one subscriber. Owned by one channel."""

    __slots__ = (
        "_bytes_max",
        "_is_advancing",
        "_is_changing",
        "_is_complete",
        "_sink",
        "_waiting",
        "_was_away",
        "sources",
        "streams",
        "trunk",
        "wanted",
    )

    def __init__(self, sink: Sink, bytes_max: int, streams: MergedStreams | None = None) -> None:
        """`streams`: the bookmark of a returning subscriber."""
        self._sink = sink
        self._bytes_max = bytes_max
        self.streams = MergedStreams() if streams is None else streams
        self.trunk = self.streams[TRUNK]
        self._waiting = WaitingParts()
        self._is_advancing = False
        # Whether all streams have been listed once: streams announced later had their first message after that.
        self._is_complete = False
        # Whether a source of all streams was lost once: lanes may have begun since.
        self._was_away = False
        # Every used or requested source, and whether its hub has listed all streams.
        self.sources: dict[Source, bool] = {}
        # The sources to keep, in the order of their request, which a seed determines; and whether there are others to
        # leave.
        self.wanted: dict[Source, None] = {}
        self._is_changing = False

    # Changing sources.

    def want(self, sources: Iterable[Source]) -> None:
        """Change to these requested sources; leave the others once these have caught up with every stream."""
        self.wanted = dict.fromkeys(sources)
        for source in self.wanted:
            self.sources.setdefault(source, False)
        self._advance()

    @property
    def awaits(self) -> object:
        """The state that a change or a stream waits for; None: nothing. An equal value means no progress."""
        if self._is_changing or self._waiting.intakes:
            starts = tuple(intake.start for intake in self._waiting.intakes)
            return (frozenset(self.sources), starts, self.streams.reached)
        return self.trunk.cursor.behind

    def give_up_waiting(self) -> None:
        """Stop waiting: messages that no source has sent are lost."""
        if self.trunk.cursor.behind is not None:
            self._sink.on_live(self.trunk.cursor.resume(*self.trunk.cursor.behind, may_lag=False))
        self._is_advancing = True
        self._skip_waiting(-1)
        self._is_advancing = False
        for stream in self.streams.values():
            for intake in stream.intakes.values():
                if not intake.is_caught_up:
                    self._resume_at(intake, may_lag=True)
        self._advance()
        if self.wanted and all(self.sources.get(source) for source in self.wanted):
            self._leave_others()
            self._end_unsourced()

    @property
    def is_changing(self) -> bool:
        """Whether there are sources to leave."""
        return self._is_changing

    # Pushes of sources.

    def begin(self, source: Source, name: bytes, epoch: int, n: int, *, may_lag: bool = True) -> None:
        """The source sends a stream after this position."""
        if epoch <= self.streams.over.get(name, -1):
            # The source's hub lags: the lane has ended.
            return
        stream = self.streams[name]
        known = stream.intakes.get(source)
        if known is not None:
            # A repetition; or a new lane, if the end of the former one is still pending.
            if any(type(part) is Ended for part in known.parts):
                self._wait(known, Begun(epoch, n))
            return
        stream.intakes[source] = Intake(stream, source, (epoch, n))
        stream.is_orphan = False
        self._note_beginning(stream)
        if name and n and stream.cursor.epoch < 0 and self._was_away:
            self._sink.on_messages(epoch, n + 1, [], None)
        self._serve(stream, may_lag=may_lag)
        self._advance()

    def is_caught_up(self, sources: Iterable[Source]) -> bool:
        """Whether all of these sources have listed their streams, and have caught up with each."""
        return all(
            self.sources.get(source, False)
            and all(
                intake.is_caught_up
                for stream in self.streams.values()
                if (intake := stream.intakes.get(source))
            )
            for source in sources
        )

    def brought_by(self, sources: set[Source]) -> set[bytes]:
        """The streams that some of these sources send."""
        return {stream.name for stream in self.streams.values() if not sources.isdisjoint(stream.intakes)}

    def begin_plain(self, source: Source) -> None:
        """The source's server has no positions: deliver messages as they arrive."""
        self.trunk.cursor = Cursor()
        intake = self.trunk.intakes[source] = Intake(self.trunk, source, self.trunk.cursor.position)
        intake.is_caught_up = True

    def greeted(self, source: Source) -> None:
        """The source's hub has listed its streams."""
        self.sources[source] = True
        self._is_complete |= not source.is_own
        for stream in self.streams.values():
            self._note_beginning(stream)
        self._end_unsourced()
        self._advance()

    def receive(self, source: Source, name: bytes, epoch: int, n: int, payloads: Sequence[bytes]) -> None:
        # This runs once per push: the usual case is first.
        stream = self.streams.get(name)
        intake = None if stream is None else stream.intakes.get(source)
        if stream is None or intake is None:
            return
        if not intake.is_caught_up or intake.parts:
            self._wait(intake, Messages(epoch, n, payloads))
            return
        verdict = stream.cursor.accept(epoch, n, len(payloads))
        if verdict is IN_ORDER:
            self._sink.on_messages(epoch, n, payloads, 0)
        else:
            self._pass_on(verdict, epoch, n, payloads)
        if self._waiting.intakes or self._is_changing:
            self._advance()

    def receive_run(self, source: Source, name: bytes, run: FilteredRun) -> None:
        """A span of positions with the matching messages: the stream advances to its end."""
        self._put(source, name, run)

    def opened(self, source: Source, epoch: int, after_epoch: int, after_n: int, at: int = 0) -> None:
        """The trunk continues in another epoch, or in the current one, after position `at`."""
        self._put(source, TRUNK, Opened(epoch, after_epoch, after_n, at=at))

    def depends(self, source: Source, name: bytes, other: bytes, epoch: int, n: int) -> None:
        """Further messages of the source in this stream depend on this position of another stream."""
        self._put(source, name, Dependency(other, epoch, n))

    def ended(self, source: Source, name: bytes, epoch: int, n: int) -> None:
        """The lane has ended. Epoch 0: its hub is dead, which sources that left the lane out report, too."""
        stream = self.streams.get(name)
        if stream is not None and source not in stream.intakes and epoch == 0:
            stream.is_orphan = True
            self._end_orphans()
            self._advance()
        else:
            self._put(source, name, Ended(epoch, n))

    def lost(self, source: Source) -> None:
        """The source has ended, or its link is down."""
        self.sources.pop(source, None)
        self.wanted.pop(source, None)
        self._drop_source(source)

    def paused(self, source: Source) -> None:
        """The source's link is down; it requests the source again when it is up."""
        self.sources[source] = False
        self._drop_source(source)

    # Inside.

    def _put(self, source: Source, name: bytes, part: Part) -> None:
        stream = self.streams.get(name)
        intake = None if stream is None else stream.intakes.get(source)
        if intake is not None:
            self._wait(intake, part)

    def _wait(self, intake: Intake, part: Part) -> None:
        self._waiting.add(intake, part)
        self._advance()

    def _advance(self) -> None:
        """Take the parts that have become due, and leave the sources that are no longer needed."""
        if self._is_advancing:
            return  # A nested call: the outer call continues until nothing is due.
        self._is_advancing = True
        for stream in self.streams.values():
            self._serve(stream, may_lag=True)
        self._take_all()
        self._skip_waiting(self._bytes_max)
        self._is_advancing = False
        for stream in self.streams.values():
            for intake in stream.intakes.values():
                intake.is_caught_up = intake.is_caught_up or intake.start <= stream.cursor.position
        self._is_changing = self.wanted.keys() != self.sources.keys()
        if self._is_changing and self._has_arrived():
            self._leave_others()

    def _serve(self, stream: MergedStream, *, may_lag: bool) -> None:
        """If no intake of the stream has caught up, and no other is awaited, continue with the earliest one."""
        if stream.intakes and not stream.is_served and not stream.is_awaited_from(self.sources):
            self._resume_at(min(stream.intakes.values(), key=lambda intake: intake.start), may_lag=may_lag)

    def _note_beginning(self, stream: MergedStream) -> None:
        """A lane that is announced after the first listing of streams is received from its first message."""
        if self._is_complete and stream.name and stream.intakes and stream.cursor.epoch < 0:
            first = min(intake.start for intake in stream.intakes.values())
            stream.cursor.resume(first[0], 0, may_lag=True)

    def _take_all(self) -> None:
        is_moving = True
        while is_moving:
            # A list, not a generator, so that every intake is processed.
            is_moving = any([self._take_waiting(intake) for intake in list(self._waiting.intakes)])  # noqa: C419

    def _take_waiting(self, intake: Intake) -> bool:
        """Take the parts of an intake that are due; return whether there were any."""
        cursor, taken = intake.stream.cursor, False
        intake.is_caught_up = intake.is_caught_up or intake.start <= cursor.position
        while intake.parts and intake.is_caught_up and self.streams.is_due(intake.parts[0], self.sources):
            taken = True
            self._do(intake.stream, self._waiting.take(intake))
        return taken

    def _do(self, stream: MergedStream, part: Part) -> None:
        """Take one part of a stream."""
        match part:
            case Messages(epoch, n, payloads):
                self._pass_on(stream.cursor.accept(epoch, n, len(payloads)), epoch, n, payloads)
            case FilteredRun():
                self._take_run(stream, part)
            case Opened(epoch, after_epoch, after_n, _, at):
                missed = stream.cursor.open(epoch, after_epoch, after_n, at)
                if missed != 0:
                    self._sink.on_messages(epoch, at + 1, [], missed)
            case Ended(epoch, n) if epoch == 0 or epoch >= stream.cursor.epoch:
                # In a later epoch: the lane continued after a loss, and ended before its next message.
                missed = None if epoch == 0 else stream.cursor.resume(epoch, n, may_lag=True)
                self._end(stream)
                if missed != 0:
                    self._sink.on_messages(epoch, n + 1, [], missed)

    def _take_run(self, stream: MergedStream, run: FilteredRun) -> None:
        skip, missed = stream.cursor.accept(run.epoch, run.n, run.span)
        if missed != 0:
            self._sink.on_messages(run.epoch, run.n, [], missed)
        for first, payloads in run.runs(run.n + skip - 1):
            self._sink.on_messages(run.epoch, first, payloads, 0)

    def _pass_on(self, verdict: Verdict, epoch: int, n: int, payloads: Sequence[bytes]) -> None:
        skip, missed = verdict
        if skip:
            n, payloads = n + skip, payloads[skip:]
        if payloads or missed != 0:
            self._sink.on_messages(epoch, n, payloads, missed)

    def _resume_at(self, intake: Intake, *, may_lag: bool) -> None:
        """No other source sends the stream: continue where the intake begins."""
        missed = intake.stream.cursor.resume(*intake.start, may_lag=may_lag)
        intake.is_caught_up = True
        if not intake.stream.name:
            self._sink.on_live(missed)
        elif missed != 0:
            self._sink.on_messages(intake.start[0], intake.start[1] + 1, [], missed)

    def _has_arrived(self) -> bool:
        """Whether the wanted sources send every stream, and have caught up with it."""
        if not self.wanted or not all(self.sources.get(source) for source in self.wanted):
            return False
        return all(
            any(intake.is_caught_up and source in self.wanted for source, intake in stream.intakes.items())
            for stream in self.streams.values()
        )

    def _leave_others(self) -> None:
        for source in [source for source in self.sources if source not in self.wanted]:
            self._leave(source)

    def _leave(self, source: Source) -> None:
        if source in self.sources:
            del self.sources[source]
            source.leave()
            self._drop_source(source)

    def _drop_source(self, source: Source) -> None:
        """The source sends no more: streams for which it alone had caught up continue from another."""
        self._was_away |= not source.is_own and self.trunk.cursor.epoch >= 0
        for stream in list(self.streams.values()):
            intake = stream.intakes.pop(source, None)
            if intake is None:
                continue
            self._waiting.drop(intake)
            if not stream.intakes and not stream.name:
                self._sink.on_down()
        self._end_orphans()
        self._advance()

    def _end(self, stream: MergedStream) -> None:
        """The lane has ended, also for parts that depend on it; parts of the next lane of that name are kept."""
        del self.streams[stream.name]
        self.streams.over[stream.name] = stream.cursor.epoch
        for source in self.sources:
            # A later lane of that name is another lane.
            source.left_out.discard(stream.name)
        next_lanes = stream.next_lanes()
        for intake in stream.intakes.values():
            self._waiting.drop(intake)
        stream.intakes.clear()
        for source, parts in next_lanes:
            for part in parts:
                if type(part) is Begun:
                    self.begin(source, stream.name, *part)
                else:
                    self._put(source, stream.name, part)

    def _end_unsourced(self) -> None:
        """End lanes that no source sends, at an unknown position, if a hub that would send them does not list them.

        A source of some streams may lag behind a disconnected one: it counts when all have listed theirs.
        """
        if any(is_greeted and not source.is_own for source, is_greeted in self.sources.items()):
            for stream in self.streams.values():
                stream.is_orphan = bool(stream.name) and not stream.intakes
        elif all(self.sources.values()):
            self.streams.orphan(self.sources)
        unnamed = [stream for stream in self.streams.values() if stream.is_orphan and not stream.intakes]
        self._end_orphans()
        self.streams.give_up(unnamed)

    def _end_orphans(self) -> None:
        for stream in [stream for stream in self.streams.values() if stream.is_orphan and not stream.intakes]:
            self._end(stream)
            self._sink.on_messages(0, 1, [], None)

    def _skip_waiting(self, bytes_max: int) -> None:
        """Skip what is awaited, though sources may still send it: the order is kept, and positions show the loss."""
        # Each step resumes at an intake, or passes a dependency, and none waits a second time.
        for _ in range(sum(1 + len(intake.parts) for intake in self._waiting.intakes)):
            if not self._waiting.intakes or self._waiting.bytes <= bytes_max:
                return
            self._skip_one(next(iter(self._waiting.intakes)))
            self._take_all()

    def _skip_one(self, intake: Intake) -> None:
        """Let one waiting intake continue."""
        if not intake.is_caught_up:
            self._resume_at(intake, may_lag=True)
            return
        dependency = intake.parts[0]
        if not isinstance(dependency, Dependency):
            return
        other = self.streams.get(dependency.stream)
        if other is None:
            self._waiting.take(intake)
        else:
            missed = other.cursor.resume(dependency.epoch, dependency.n, may_lag=True)
            if missed != 0:
                self._sink.on_messages(dependency.epoch, dependency.n + 1, [], missed)
