"""The pipeline's requests to a real hub."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.compute as pc  # type: ignore[import-untyped]  # It ships no types.
import pytest
import redis

from equipoise.errors import RefusedError
from equipoise.pipeline.samples import Sampled, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.source.fetch import fetched
from equipoise.pipeline.source.hub_connection import Door, HubConnection
from equipoise.pipeline.source.offsets import Range
from equipoise.pipeline.source.unpack import unpacked
from hub.live import users_text
from support.polling import eventually
from support.processes import hub

OPERATOR = 'observe = ["*"]'
GUEST = 'subscribe = ["*"]'


def samples_of(door: Door, name: str) -> Sampled:
    """All that the hub has recorded so far, read in small pieces."""
    connection = HubConnection(door)
    head = connection.ask(0, 0, 0)
    connection.close()
    span = Range(hub=name, incarnation=head.incarnation, start=head.first, end=head.end, unanswered=0)
    batches = list(fetched(span, door, piece_bytes_max=65_536, timeout_s=20.0))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert sum(row["records"] for row in rows) == head.end - head.first
    records, rejected = unpacked(rows, now_us=time.time_ns() // 1000, plausible=Plausible())
    assert not rejected
    return sampled(records, rejected)


def test_records_of_a_real_hub_all_count_and_add_up() -> None:
    with hub(name="h1") as server, redis.Redis(port=server.port) as client:
        for number in range(300):
            client.publish(f"topic-{number % 3}", b"hello")
        door = Door("127.0.0.1", server.port, timeout_s=10.0)

        def published() -> int:
            return int(pc.sum(samples_of(door, "h1").topics.column("publications")).as_py() or 0)

        eventually(lambda: published() == 300)
        found = samples_of(door, "h1")
        assert set(found.topics.column("topic").to_pylist()) == {b"topic-0", b"topic-1", b"topic-2"}
        assert pc.sum(found.topics.column("bytes_in")).as_py() == 300 * len(b"hello")
        assert set(found.hubs.column("hub").to_pylist()) == {"h1"}


def test_a_hub_with_users_gives_telemetry_to_an_operator_only(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text(users_text(pipeline=OPERATOR, guest=GUEST))
    with hub("--users", str(users), name="h1") as server:

        def door(user: str, secret: str) -> Door:
            return Door("127.0.0.1", server.port, user, secret, timeout_s=10.0)

        own = HubConnection(door("pipeline", "pipeline"))
        eventually(lambda: own.ask(0, 0, 0).end > 0)
        own.close()
        assert len(samples_of(door("pipeline", "pipeline"), "h1").hubs) > 0
        for stranger in (door("guest", "guest"), door("pipeline", "wrong"), door("", "")):
            connection = HubConnection(stranger)
            with pytest.raises(RefusedError, match=r"NOPERM|WRONGPASS|NOAUTH"):
                connection.ask(0, 0, 0)
            connection.close()


def test_an_open_hub_accepts_a_login_that_is_prepared_for_later_users() -> None:
    with hub(name="h1") as server:
        connection = HubConnection(Door("127.0.0.1", server.port, "hubs", "a secret", timeout_s=10.0))
        eventually(lambda: connection.ask(0, 0, 0).end > 0)
        connection.close()
