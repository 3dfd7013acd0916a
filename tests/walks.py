"""Which files of the project run for one message, and for one measurement: counted by a trace.

`python tests/walks.py` prints the files of each walk. The same script counts an older tree whose tests have the same
helpers: run it with that tree's `src` and `tests` on PYTHONPATH. Spark's own processes and the TCP hops between
processes are left out of the third walk; all code that decides about a record in them runs here.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["WALKS", "files_run"]


def files_run(walk: Callable[[], object]) -> list[str]:
    """Files of the package with a function that is called during the walk, in the order in which they are entered."""
    import equipoise

    root = f"{Path(str(equipoise.__file__)).parent}/"
    found: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(root) and frame.f_code.co_name != "<module>":
            found[name.removeprefix(root)] = None

    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return list(found)


def at_one_hub() -> list[str]:
    """A plain client publishes; a subscriber of the same hub receives."""
    from hub.world import World

    world = World()
    subscriber, publisher = world.client(), world.client()
    subscriber.do("SUBSCRIBE", "t")
    publisher.do("PUBLISH", "t", "first")
    subscriber.read()

    def walk() -> None:
        publisher.send("PUBLISH", "t", "x")
        world.advance()

    files = files_run(walk)
    assert subscriber.read() == [[b"message", b"t", b"x"]]
    return files


def through_a_relay() -> list[str]:
    """A client publishes with EQ.PUBLISH at h2; h1, the home, numbers and acknowledges; a subscriber of h3 receives."""
    from equipoise.hub.cluster import relays
    from equipoise.model import Mode
    from hub.cluster.hubs import Hubs

    # The compiled part takes some of these steps without a call of Python.
    built, relays.compiled = relays.compiled, None  # type: ignore[assignment]  # as if not built
    try:
        hubs = Hubs("h1", "h2", "h3")
    finally:
        relays.compiled = built
    hubs.replicate("t", Mode.SINGLE, "h1")
    publisher, subscriber = hubs["h2"].client(3), hubs["h3"].client()
    subscriber.send("SUBSCRIBE", "t")
    hubs.settle()
    publisher.send("EQ.PUBLISH", "t", "first")
    hubs.settle()
    assert len(subscriber.read()) == 2
    publisher.read()

    def walk() -> None:
        publisher.send("EQ.PUBLISH", "t", "x")
        hubs.settle()

    files = files_run(walk)
    assert subscriber.read() == [[b"message", b"t", b"x"]]
    assert publisher.read()
    return files


def from_record_to_decision() -> list[str]:
    """A hub records a window; it is read, validated, aggregated into a view, sent, decoded, and planned on."""
    import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

    from equipoise.model import Member, Plan, Specs
    from hub.metered import MeteredWorld, Reader

    try:
        from equipoise.lab.simulation.cluster.controller import LiveViews
    except ImportError:
        from equipoise.experiments.views import LiveViews  # type: ignore[import-not-found, no-redef]
    try:
        from equipoise.view.codec import HEADER_BYTES, decode_header, decode_view, encode_view, to_tables
    except ImportError:
        from equipoise.plan.view_table import to_tables  # type: ignore[import-not-found, no-redef]
        from equipoise.plan.view_wire import (  # type: ignore[import-not-found, no-redef]
            HEADER_BYTES,
            decode_header,
            decode_view,
            encode_view,
        )
    from equipoise.plan.memory import Memory
    from equipoise.plan.planner import Planner
    from equipoise.plan.settings import PlannerSettings

    world = MeteredWorld()
    subscriber, publisher = world.client(), world.client()
    subscriber.do("SUBSCRIBE", "t")
    views, planner = LiveViews(), Planner(PlannerSettings())
    reader = Reader(world.client(3), world)
    reader.read_all()
    plan, specs = Plan(version=1, members=(Member("hub"),)), Specs()

    def walk() -> None:
        publisher.send("PUBLISH", "t", "x")
        world.end_window()
        _, _, following, stream, _ = reader.ask(reader.incarnation, reader.next, 1 << 20)
        reader.next = following
        batches = pa.ipc.open_stream(io.BytesIO(stream)).read_all().to_batches()
        view = views.view(batches, world.shell.wall_time())
        assert view is not None
        data = encode_view(view.time_s, view.window_s, to_tables(view))
        arrived = decode_view(decode_header(data[:HEADER_BYTES]), data[HEADER_BYTES:])
        planner.decide(arrived, plan, specs, arrived.time_s, Memory())

    walk()
    return files_run(walk)


WALKS: dict[str, Callable[[], list[str]]] = {
    "one message at one hub": at_one_hub,
    "one message through a relay to the home and back": through_a_relay,
    "one measurement, from hub to decision": from_record_to_decision,
}

if __name__ == "__main__":
    for name, walk in WALKS.items():
        files = walk()
        print(f"{name}: {len(files)} files\n    {' '.join(files)}")
