"""Reading CPU time and memory of a process."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from equipoise.profile.meters import (
    cpu_clock_id,
    parse_rollup_rss_bytes,
    parse_stat_cpu_s,
    parse_statm_rss_bytes,
    process_cpu_s,
    resident_bytes,
)

STAT = "4711 ({name}) S 1 4711 4711 0 -1 4194560 500 0 0 0 {utime} {stime} 0 0 20 0 4 0 1000 1000000 2000"
ROLLUP = """\
5612352b5000-7ffc22f4a000 ---p 00000000 00:00 0                          [rollup]
Rss:                1696 kB
Pss:                 284 kB
SwapPss:               0 kB
"""


@pytest.mark.parametrize("name", ["redis-server", "a b", "odd) S 1 (name"])
def test_cpu_time_is_user_plus_system_time_whatever_the_name(name: str) -> None:
    assert parse_stat_cpu_s(STAT.format(name=name, utime=250, stime=50), 100) == 3.0


def test_resident_memory_is_the_rss_line_of_the_rollup() -> None:
    assert parse_rollup_rss_bytes(ROLLUP) == 1696 * 1024


def test_a_rollup_without_rss_is_refused() -> None:
    with pytest.raises(ValueError, match="Rss"):
        parse_rollup_rss_bytes("Pss: 284 kB\n")


def test_resident_memory_is_the_second_field_of_statm_in_pages() -> None:
    assert parse_statm_rss_bytes("9000 500 200 10 0 300 0\n", 4096) == 500 * 4096


def test_the_cpu_clock_of_another_process_is_named_by_its_id() -> None:
    # What clock_getcpuclockid(3) gives for this process differs only in that 0 stands for "self".
    assert time.clock_gettime(cpu_clock_id(os.getpid())) == pytest.approx(time.process_time(), abs=0.05)


def test_cpu_time_grows_with_work_and_agrees_with_the_ticks_of_proc() -> None:
    before = process_cpu_s(os.getpid())
    deadline = time.process_time() + 0.05
    while time.process_time() < deadline:
        pass
    grown = process_cpu_s(os.getpid()) - before
    assert 0.05 <= grown < 0.5
    ticks = parse_stat_cpu_s(Path("/proc/self/stat").read_text(), os.sysconf("SC_CLK_TCK"))
    assert process_cpu_s(os.getpid()) == pytest.approx(ticks, abs=0.1)


def test_resident_memory_grows_by_what_is_touched() -> None:
    # A mapping of its own: a large object could be given pages that an earlier test has left to this process.
    with mmap.mmap(-1, 32 << 20) as touched:
        before = resident_bytes(os.getpid())
        for page in range(0, len(touched), mmap.PAGESIZE):
            touched[page] = 1
        assert resident_bytes(os.getpid()) - before == pytest.approx(len(touched), rel=0.2)
