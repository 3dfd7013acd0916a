"""What does `HubCore.publish` of this tree cost against that of another one?

    git worktree add --detach /tmp/before 02d25be
    python benchmarks/micro/publish.py /tmp/before [--rounds 60] [--json] [--out benchmarks/results]

Method: both trees are loaded into one process, each with the hub of its own tests, which has no sockets. They take
turns: a round is 2,000 publishes of one message of 100 bytes to a topic with so many subscribers, whose writes do
nothing. CPU time; the minimum of the rounds, since other work of the machine can only add. The compiled part is not
in it.

Finding: docs/results/fanout.md.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
PUBLISHES = 2_000
PAYLOADS = (b"x" * 100,)


def loaded(tree: Path, subscribers: int) -> Callable[[], float]:
    """A round of this tree; the seconds of CPU that a publish took in it."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("equipoise", "hub")]:
        del sys.modules[name]
    places = [str(tree / "src"), str(tree / "tests")]
    sys.path[:0] = places
    try:
        world = importlib.import_module("hub.world").World()
    finally:
        del sys.path[: len(places)]
    clients = [world.client() for _ in range(subscribers)]
    for client in clients:
        client.send("SUBSCRIBE", "news")
    publisher = world.client()
    publisher.send("PUBLISH", "news", "x")
    for client in clients:
        client.session.write = _nothing
    core, topic = world.core, world.core.index.topics[b"news"]

    def one_round() -> float:
        publish: Any = core.publish
        started = time.process_time()
        for _ in range(PUBLISHES):
            publish(topic, PAYLOADS)
        return (time.process_time() - started) / PUBLISHES

    return one_round


def _nothing(data: bytes) -> None:
    pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="folder of the tree to compare with")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    rows = []
    for subscribers in (1, 10, 100):
        other, this = loaded(options.other, subscribers), loaded(HERE, subscribers)
        pairs = [(other(), this()) for _ in range(options.rounds)]
        before, after = (min(column) for column in zip(*pairs, strict=True))
        rows.append(
            {
                "subscribers": subscribers,
                "before_ns": round(before * 1e9),
                "after_ns": round(after * 1e9),
                "ratio": round(after / before, 3),
            }
        )
    # Of the tree that was loaded last, this one.
    kept = importlib.import_module("equipoise.profile.environment").keep(
        "publish", {"rounds": options.rounds, "rows": rows}, options.out
    )
    if options.json:
        print(kept)
        return
    for row in rows:
        print(
            f"{row['subscribers']:>4} subscribers  {row['before_ns']} ns before, {row['after_ns']} ns now, "
            f"× {row['ratio']}"
        )


if __name__ == "__main__":
    main()
