"""The compiled way of a connection does what the way in Python does, and its wires behave as transports.

`tests/hub/live.py` runs every test on uvloop, on wires where they are built, and on asyncio's loop, whose transports
are the reference. Here both ways get the same bytes, turn by turn.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.hub import Limits
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.core import HubCore
from equipoise.hub.data.reply import Reply
from equipoise.hub.shell import listening
from equipoise.hub.shell.accepted_connection import AcceptedConnection
from equipoise.resp import RequestReader
from equipoise.stream.effects import StreamState
from equipoise.stream.submission import Budget
from hub.live import Peer, live_hub, on_uvloop
from hub.world import World, pipeline, users
from support.polling import until

ROOT = Path(__file__).resolve().parents[2]
HIGH_WATER_BYTES = 64 * 1024

needs_wires = pytest.mark.skipif(
    listening.wires is None, reason="_sockets.c is not built: `make setup` does where there is a C compiler"
)


class WireWorld(World):
    """A hub core whose clients are at the other ends of real sockets. Turns of the poller are taken by hand."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.begin()

    def begin(self) -> None:
        self.problems: list[BaseException] = []
        self.clients: list[WireClient] = []
        self._soon: list[tuple[Callable[..., object], tuple[object, ...]]] = []
        self.poller = listening.wires.Poller(
            self.core, lambda call, *args: self._soon.append((call, args)), self.problems.append
        )
        self.poller.gather(self.core.commands.add_gathered)

    def turn(self) -> None:
        self.poller.run()
        while self._soon:
            call, args = self._soon.pop(0)
            call(*args)

    def close(self) -> None:
        for session in list(self.core.sessions.values()):
            self.core.cut(session, "the test is over")
        self.turn()
        self.poller.close()
        for client in self.clients:
            client.close()


class WireClient:
    """One end of a connection; the other is a wire of the hub's."""

    def __init__(self, world: WireWorld, *, user: str | None = None) -> None:
        self._world = world
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        theirs.setblocking(False)
        self.connection = AcceptedConnection(world.core, is_on_wire=True)
        self.session = self.connection.session
        self.wire = world.poller.attach(theirs.detach(), self.connection, self.session)
        self.connection.connection_made(self.wire)
        if user is not None:
            known = world.core.users.get(user)
            assert known is not None
            world.core.log_in(self.session, known)
        self.wire.resume_reading()
        self.received = bytearray()
        world.clients.append(self)

    def send_raw(self, data: bytes) -> None:
        self.put_raw(data)
        self._world.turn()

    def put_raw(self, data: bytes) -> None:
        """For a turn that comes later."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.send(data)

    def read(self) -> bytes:
        """All that has come, so far."""
        try:
            while data := self._socket.recv(1 << 20):
                self.received += data
        except (BlockingIOError, ConnectionResetError):
            pass
        return bytes(self.received)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def wire_world(**options: Any) -> Iterator[WireWorld]:
    world = WireWorld(**options)
    try:
        yield world
        assert world.problems == []
    finally:
        world.close()


NAMES = (b"a", b"b", b"chat/1")
SIZES = (0, 1, 9, 10, 99, 100, 1_000)
publishes = st.builds(
    lambda verb, name, size: [verb, name, b"x" * size],
    st.sampled_from((b"PUBLISH", b"PUBLISH", b"PUBLISH", b"publish", b"SPUBLISH")),
    st.sampled_from(NAMES),
    st.sampled_from(SIZES),
)
others = st.sampled_from(
    [
        [b"PING"],
        [b"SUBSCRIBE", b"a"],
        [b"SUBSCRIBE", b"b", b"chat/1"],
        [b"UNSUBSCRIBE"],
        [b"PSUBSCRIBE", b"*"],
        [b"PUNSUBSCRIBE"],
        [b"HELLO", b"3"],
        [b"CLIENT", b"REPLY", b"OFF"],
        [b"CLIENT", b"REPLY", b"SKIP"],
        [b"CLIENT", b"REPLY", b"ON"],
        [b"MULTI"],
        [b"EXEC"],
        [b"PUBLISH", b"a"],
        [b"QUIT"],
    ]
)
chunks = st.builds(
    lambda commands, cut: pipeline(commands)[: None if cut is None else -cut],
    st.lists(st.one_of(publishes, publishes, publishes, others), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(1, 60)),
)
SPELLED_ODDLY = (
    b"*3\r\n$07\r\nPUBLISH\r\n$1\r\na\r\n$1\r\nx\r\n",
    b"*3\r\n$7\r\nPUBLISH\r\n$1\r\na\n\n$1\r\nx\n\n",
)


def counts(core: HubCore) -> dict[str, object]:
    topics = {
        name: (topic.n, topic.published, topic.bytes_in, topic.delivered, topic.bytes_out, topic.publisher)
        for name, topic in core.index.topics.items()
    }
    return {"topics": topics, "stats": core.stats, "held": core.backlogs.bytes}


@needs_wires
@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), chunks), min_size=1, max_size=20))
@example([(0, pipeline([[b"SUBSCRIBE", b"a"]])), (1, SPELLED_ODDLY[0])])
@example(
    [(0, pipeline([[b"SUBSCRIBE", b"a"]])), (1, pipeline([[b"PUBLISH", b"a", b"1"]])), (1, SPELLED_ODDLY[1])]
)
def test_both_ways_answer_deliver_and_count_alike(sent: list[tuple[int, bytes]]) -> None:
    _compare(sent, None)


@needs_wires
@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), chunks), min_size=1, max_size=20))
def test_both_ways_judge_users_alike(sent: list[tuple[int, bytes]]) -> None:
    _compare(sent, ("reader", "writer", "writer", "chatter"))


def _compare(sent: list[tuple[int, bytes]], names: tuple[str, ...] | None) -> None:
    known = (
        None
        if names is None
        else users(
            reader='subscribe = ["*"]\ncreate = ["*"]',
            writer='subscribe = ["a"]\npublish = ["*"]\ncreate = ["*"]',
            chatter='publish = ["chat/*"]',
        )
    )
    reference = World(known)
    expected = [reference.client(user=name) for name in names or (None,) * 4]
    with wire_world(users=known) as world:
        clients = [WireClient(world, user=name) for name in names or (None,) * 4]
        for number, chunk in sent:
            expected[number].send_raw(chunk)
            clients[number].send_raw(chunk)
            reference.advance()
            world.advance()
            world.turn()
        for client, other in zip(clients, expected, strict=True):
            assert client.read() == bytes(other.wire.sent)
            assert client.session.is_closing == other.session.is_closing
        assert counts(world.core) == counts(reference.core)


@needs_wires
def test_what_is_plain_takes_the_compiled_way() -> None:
    """Else the comparison above would compare one way with itself."""
    with wire_world() as world:
        subscriber, publisher = WireClient(world), WireClient(world)
        subscriber.send_raw(pipeline([[b"SUBSCRIBE", b"a"]]))
        publisher.send_raw(pipeline([[b"PUBLISH", b"a", b"first"]]))
        # A session that would fail if it were asked: its reader is not one.
        reader, publisher.session._reader = publisher.session._reader, _Refusing(publisher.session._reader)
        publisher.send_raw(pipeline([[b"PUBLISH", b"a", b"one"], [b"PUBLISH", b"a", b"two"]]))
        publisher.session._reader = reader
        assert publisher.read() == b":1\r\n" * 3
        assert subscriber.read().endswith(b"$3\r\none\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\ntwo\r\n")


class _Refusing(RequestReader):
    """A reader with the same limits that must not be asked."""

    __slots__ = ()

    def __init__(self, other: RequestReader) -> None:
        super().__init__(other.limits)

    def feed(self, data: bytes) -> Any:
        raise AssertionError(f"the way in Python was taken: {data!r}")


@needs_wires
def test_what_a_subscriber_does_not_read_is_held_and_comes_in_order() -> None:
    messages = [b"%04d" % number + b"x" * 1_000 for number in range(2_000)]
    with wire_world() as world:
        subscriber, publisher = WireClient(world), WireClient(world)
        subscriber.send_raw(pipeline([[b"SUBSCRIBE", b"a"]]))
        for message in messages:
            publisher.send_raw(pipeline([[b"PUBLISH", b"a", message]]))
        backlog = world.core.backlogs.lagging[subscriber.session]
        assert backlog.pieces, "the transport was full"
        assert subscriber.wire.get_write_buffer_size() <= HIGH_WATER_BYTES + 1_100
        head = b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1004\r\n"
        expected = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" + b"".join(
            head + m + b"\r\n" for m in messages
        )
        for _ in range(10_000):
            if len(subscriber.read()) == len(expected):
                break
            world.turn()
        assert subscriber.read() == expected
        assert world.core.backlogs.lagging == {} and world.core.backlogs.bytes == 0


@needs_wires
def test_a_client_that_holds_too_much_is_cut_in_the_middle_of_a_run() -> None:
    limits = Limits(output_bytes_max=256 * 1024, output_soft_bytes=128 * 1024)
    with wire_world(limits=limits) as world:
        slow, healthy, publisher = WireClient(world), WireClient(world), WireClient(world)
        for each in (slow, healthy):
            each.send_raw(pipeline([[b"SUBSCRIBE", b"a"]]))
        for _ in range(1_000):
            publisher.send_raw(pipeline([[b"PUBLISH", b"a", b"x" * 1_000]] * 4))
            healthy.read()
            publisher.read()
        assert slow.session.is_closing and not healthy.session.is_closing
        assert healthy.received.count(b"message") == 4_000
        assert publisher.received.endswith(b":1\r\n") and publisher.received.startswith(b":2\r\n")
        assert world.core.backlogs.cuts == 1


@needs_wires
def test_an_outlet_writes_what_a_turn_gathers_at_once_and_keeps_its_order() -> None:
    """So the frames of a turn to another hub are one system call."""
    with wire_world() as world:
        written: list[bytes] = []
        outlet = world.poller.gathered(written.append)

        def turn(*pieces: bytes) -> None:
            for piece in pieces:
                outlet(piece)

        outlet(b"before")
        assert written == [b"before"]
        world.poller.turn(partial(turn, b"one ", b"two ", b"three"))
        world.poller.turn(partial(turn, b"four"))
        assert written == [b"before", b"one two three", b"four"]
        full = b"x" * HIGH_WATER_BYTES
        world.poller.turn(partial(turn, b"1", full, b"2"))
        assert written[3:] == [b"1" + full, b"2"]


@needs_wires
def test_an_outlet_whose_transport_fails_is_told_and_others_write() -> None:
    world = WireWorld()
    written: list[bytes] = []

    def fail(data: bytes) -> None:
        raise OSError("closed")

    failing, sound = world.poller.gathered(fail), world.poller.gathered(written.append)
    world.poller.turn(lambda: (failing(b"1"), sound(b"2")))
    assert [type(problem) for problem in world.problems] == [OSError]
    assert written == [b"2"]
    world.close()


@needs_wires
def test_a_failing_callback_ends_its_connection_and_is_told() -> None:
    world = WireWorld()
    client, other = WireClient(world), WireClient(world)
    client.session._reader = None  # type: ignore[assignment]  # so that receiving fails
    client.send_raw(pipeline([[b"PING"]]))
    other.send_raw(pipeline([[b"PING"]]))
    assert [type(problem) for problem in world.problems] == [AttributeError]
    assert client.session.id not in world.core.sessions
    assert other.read() == b"+PONG\r\n"
    world.close()


@needs_wires
@on_uvloop
async def test_a_client_that_resets_is_forgotten_also_while_it_is_written_to() -> None:
    async with live_hub() as hub, Peer.connected(hub) as publisher:
        for _ in range(20):
            sock = socket.create_connection(("127.0.0.1", hub.port))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.sendall(pipeline([[b"SUBSCRIBE", b"a"]]))
            await until(lambda: hub.core.index.topics.get(b"a") and hub.core.index.topics[b"a"].members)
            sock.close()
            for _ in range(5):
                await publisher.do("PUBLISH", "a", "x" * 10_000)
            await until(lambda: len(hub.core.sessions) == 1)
        assert await publisher.do("PUBLISH", "a", "x") == 0


@on_uvloop
async def test_wires_serve_where_they_are_built_and_only_without_tls() -> None:
    is_built = listening.wires is not None and not os.environ.get("EQUIPOISE_PURE")
    async with live_hub() as hub, Peer.connected(hub) as peer:
        assert await peer.do("PING") == b"PONG"
        (session,) = hub.core.sessions.values()
        assert (type(session.wire).__name__ == "Wire") == is_built
        assert listening.has_wires(asyncio.get_running_loop()) == is_built


@contextmanager
def timed_wires() -> Iterator[tuple[WireWorld, WireClient, WireClient]]:
    """A hub that watches its clock, with a subscriber and a publisher of one topic whose way is the compiled one."""
    with wire_world() as world:
        subscriber, publisher = WireClient(world), WireClient(world)
        subscriber.send_raw(pipeline([[b"SUBSCRIBE", b"a"]]))
        publisher.send_raw(pipeline([[b"PUBLISH", b"a", b"1"]]))
        world.core.standstill.on_hold.append(world.poller.hold)
        world.core.standstill.start()
        publisher.send_raw(pipeline([[b"PUBLISH", b"a", b"2"]]))
        assert publisher.read() == b":1\r\n" * 2
        yield world, subscriber, publisher
        world.core.standstill.stop()


@needs_wires
def test_the_compiled_way_publishes_nothing_after_a_standstill() -> None:
    with timed_wires() as (world, subscriber, publisher):
        world.shell.stall(60.0)
        publisher.send_raw(pipeline([[b"PUBLISH", b"a", b"3"]]))
        assert publisher.read() == b":1\r\n" * 2
        assert subscriber.read().count(b"message") == 2
        # Without a cluster nothing can have declared it dead.
        world.advance(1.0)
        world.turn()
        assert publisher.read() == b":1\r\n" * 3
        assert subscriber.read().count(b"message") == 3


@needs_wires
def test_replies_of_a_turn_in_which_the_hub_stood_still_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with timed_wires() as (world, subscriber, publisher):
        other = WireClient(world)
        with monkeypatch.context() as patch:
            # Called for a publisher that is not the last one, in the middle of the turn.
            patch.setattr(world.core.metering, "published_by", lambda topic, session: world.shell.stall(60.0))
            other.send_raw(pipeline([[b"PUBLISH", b"a", b"3"]]))
        assert world.core.index.topics[b"a"].n == 3, "it was executed"
        assert world.core.standstill.is_holding
        assert other.read() == b""
        # What is written later goes behind it.
        other.session.write(b"+later\r\n")
        assert other.read() == b""
        # A client that leaves meanwhile is owed nothing.
        publisher.session.write(b"+gone\r\n")
        world.core.cut(publisher.session, "the test says so")
        world.turn()
        world.advance(1.0)
        assert other.read() == b":1\r\n+later\r\n"
        assert subscriber.read().count(b"message") == 3
        assert other.session.wire.get_write_buffer_size() == 0


@needs_wires
def test_links_between_hubs_are_written_to_while_replies_are_kept() -> None:
    with timed_wires() as (world, _, publisher):
        world.poller.hold(True)
        publisher.session.peer = _End()
        publisher.session.write(b"+frame\r\n")
        assert publisher.read().endswith(b"+frame\r\n")
        publisher.session.peer = None
        world.poller.hold(False)


class _End:
    is_busy = False

    def receive(self, data: bytes) -> None:
        raise AssertionError("nothing is sent to it")


# hatchling is there only while something is built: the hook's base class is all that importing it needs.
COMPILE = """
import sys, types
from pathlib import Path
names = ["hatchling", "builders", "hooks", "plugin", "interface"]
for i in range(len(names)):
    sys.modules[".".join(names[: i + 1])] = types.ModuleType(names[i])
sys.modules[".".join(names)].BuildHookInterface = list
sys.path.insert(0, ".")
import hatch_build
folder = Path(sys.argv[1])
for source in hatch_build.SOURCES:
    print(hatch_build.compile_to(source, folder / (source.stem + ".so"), *sys.argv[2:]))
"""


def compiled(folder: Path, *compiler: str) -> list[str]:
    command = [sys.executable, "-c", COMPILE, str(folder), *compiler]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout.splitlines()


def test_a_machine_without_a_compiler_builds_without_the_parts(tmp_path: Path) -> None:
    assert all("no-such-compiler" in line for line in compiled(tmp_path, "no-such-compiler"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_machine_with_a_compiler_builds_the_parts(tmp_path: Path) -> None:
    assert compiled(tmp_path, "cc -Wall -Werror") == ["None", "None", "None"]
    made = sorted(tmp_path.iterdir())
    assert [path.name for path in made] == ["_relays.so", "_runs.so", "_sockets.so"]
    assert all(path.read_bytes().startswith(b"\x7fELF") for path in made)


@needs_wires
def test_what_work_outside_the_poller_writes_is_gathered_as_one_turn_and_timed() -> None:
    with wire_world() as world:
        clients = [WireClient(world), WireClient(world)]
        before_s, before = world.poller.sent()

        def work() -> None:
            for piece in (b"+a\r\n", b"+b\r\n"):
                for client in clients:
                    client.wire.write(piece)
            assert [client.read() for client in clients] == [b"", b""]

        world.poller.turn(work)
        assert [client.read() for client in clients] == [b"+a\r\n+b\r\n"] * 2
        after_s, after = world.poller.sent()
        assert after - before == 16
        assert after_s > before_s
        # Output written outside of a turn is sent at once, and not counted.
        clients[0].wire.write(b"+c\r\n")
        assert clients[0].read().endswith(b"+c\r\n")
        assert world.poller.sent() == (after_s, after)


@needs_wires
def test_work_that_fails_in_a_turn_has_sent_what_it_wrote() -> None:
    with wire_world() as world:
        client = WireClient(world)

        def work() -> None:
            client.wire.write(b"+a\r\n")
            raise RuntimeError("as it happens")

        with pytest.raises(RuntimeError, match="as it happens"):
            world.poller.turn(work)
        assert client.read() == b"+a\r\n"


@needs_wires
def test_runs_for_another_home_are_submitted_and_replies_to_come_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. A topic has state of a stream: other hubs are involved.
    2. Its first run is answered at once, its second one later, and a run of an ordinary topic lies between.
    """
    with wire_world() as world:
        client = WireClient(world)
        client.send_raw(pipeline([[b"PUBLISH", b"far", b"0"], [b"PUBLISH", b"near", b"0"]]))
        topic = world.core.index.topics[b"far"]
        topic.stream = Stream(topic, StreamState.REMOTE, "h2", Budget(1_000))
        pending = Reply()
        replies: list[bytes | Reply] = [b":7\r\n", pending]
        runs: list[tuple[object, list[bytes]]] = []

        def submit(topic: object, payloads: list[bytes]) -> bytes | Reply:
            runs.append((topic, list(payloads)))
            return replies[len(runs) - 1]

        monkeypatch.setattr(world.core.cluster, "submit", submit)
        client.read()
        client.received.clear()
        names = (b"far", b"far", b"near", b"far", b"near")
        client.send_raw(pipeline([[b"PUBLISH", name, b"%d" % i] for i, name in enumerate(names)]))
        assert runs == [(topic, [b"0", b"1"]), (topic, [b"3"])]
        assert client.read() == b":7\r\n:7\r\n:0\r\n"
        assert world.core.index.topics[b"near"].n == 3
        pending.complete(b":9\r\n")
        world.shell.advance(0.0)
        world.turn()
        assert client.read() == b":7\r\n:7\r\n:0\r\n:9\r\n:0\r\n"
        topic.stream = None
