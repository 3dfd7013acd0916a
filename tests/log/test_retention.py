"""What goes of a log by age, by size, and once every group has acknowledged it."""

from __future__ import annotations

import pytest

from equipoise.cli.support.units import parse_retention
from equipoise.errors import SettingsError
from equipoise.log.retention import trim_log
from equipoise.model import Durability, Retention, TopicSpec, decode_spec, encode_spec
from log.logs import Logs


def filled(count: int = 5) -> Logs:
    """Entries a second apart, the last one now."""
    logs = Logs()
    for number in range(count):
        logs.now_ms += 1_000
        logs.run("XADD", "t", "*", "payload", f"m{number}")
    return logs


def left(logs: Logs, retention: Retention) -> list[str]:
    log = logs.logs[b"t"]
    before = log.entries.count
    gone = trim_log(log, retention, logs.now_ms)
    assert gone == before - log.entries.count
    assert bool(log.take_changes()) == bool(gone)
    return [piece.split(b"\r\n")[-2].decode() for _, piece in log.entries.range()]


def test_entries_go_by_age() -> None:
    assert left(filled(), Retention(age_s=2.0)) == ["m2", "m3", "m4"]
    assert left(filled(), Retention(age_s=60.0)) == ["m0", "m1", "m2", "m3", "m4"]


def test_entries_go_by_size() -> None:
    logs = filled()
    size = logs.logs[b"t"].entries.bytes
    assert left(logs, Retention(bytes_max=size)) == ["m0", "m1", "m2", "m3", "m4"]
    assert left(logs, Retention(bytes_max=size - 1)) == ["m1", "m2", "m3", "m4"]
    assert left(logs, Retention(bytes_max=1)) == []


def test_entries_go_once_every_group_has_acknowledged_them() -> None:
    logs = filled()
    consumed = Retention(until_consumed=True)
    assert len(left(logs, consumed)) == 5
    logs.run("XGROUP", "CREATE", "t", "one", "0")
    logs.run("XGROUP", "CREATE", "t", "two", "0")
    for group, count in (("one", 3), ("two", 4)):
        logs.run("XREADGROUP", "GROUP", group, "c", "COUNT", count, "STREAMS", "t", ">")
    assert len(left(logs, consumed)) == 5
    ids = [b"%d-%d" % at for at, _ in logs.logs[b"t"].entries.range()]
    logs.run("XACK", "t", "one", *ids[:3])
    logs.run("XACK", "t", "two", ids[0], ids[2], ids[3])
    assert left(logs, consumed) == ["m1", "m2", "m3", "m4"]
    logs.run("XACK", "t", "two", ids[1])
    assert left(logs, consumed) == ["m3", "m4"]


def test_an_empty_log_is_left_alone() -> None:
    logs = Logs()
    assert left(logs, Retention(age_s=1.0, bytes_max=1, until_consumed=True)) == []


def test_retention_is_read_as_it_is_typed() -> None:
    assert parse_retention("7d,10GB,consumed") == Retention(7 * 86_400.0, 10 * 1000**3, True)
    assert parse_retention("90min") == Retention(5_400.0)
    assert parse_retention("1.5MiB") == Retention(None, 1_572_864)
    assert str(parse_retention("2h, 5B, consumed")) == "7200s,5B,consumed"
    for wrong in ("", "7", "10 apples", "consumed;7d", "0.5s", "0B"):
        with pytest.raises(SettingsError):
            parse_retention(wrong)


def test_a_spec_keeps_its_retention_and_needs_durability_for_it() -> None:
    retention = Retention(60.0, None, True)
    spec = TopicSpec(pattern=b"t", durability=Durability(1, 1, 1), retention=retention)
    assert decode_spec(encode_spec(spec)) == spec
    with pytest.raises(SettingsError, match="needs durability"):
        TopicSpec(pattern=b"t", retention=retention)
