"""CPU time and resident memory of a server process, from the kernel.

CPU time is the process's own CPU clock: user and system time of all its threads, including ended ones, in nanoseconds.
If that clock cannot be read, the sum in /proc/PID/stat is used, in ticks of 10 ms.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

# The kernel's encoding of "CPU clock of process PID": the complement of the PID, three low bits of kind,
# where 2 asks for the scheduler's exact time of the whole thread group (clock_getcpuclockid(3) computes the
# same).
_CPUCLOCK_SCHED = 2


def process_cpu_s(pid: int) -> float:
    """CPU time that all threads of `pid` have used so far, in seconds."""
    try:
        return time.clock_gettime_ns(cpu_clock_id(pid)) / 1e9
    except OSError:
        return parse_stat_cpu_s(Path(f"/proc/{pid}/stat").read_text(), os.sysconf("SC_CLK_TCK"))


def cpu_clock_id(pid: int) -> int:
    return (~pid << 3) | _CPUCLOCK_SCHED


def parse_stat_cpu_s(stat: str, ticks_per_s: int) -> float:
    """Read utime + stime from /proc/PID/stat. Its second field, a name, may have spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / ticks_per_s


def resident_bytes(pid: int) -> int:
    """Resident memory of `pid`. The roll-up is exact; `statm` counts per CPU and may lag by some pages."""
    try:
        return parse_rollup_rss_bytes(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except (OSError, ValueError):
        return parse_statm_rss_bytes(Path(f"/proc/{pid}/statm").read_text(), os.sysconf("SC_PAGE_SIZE"))


def parse_rollup_rss_bytes(rollup: str) -> int:
    found = re.search(r"^Rss:\s+(\d+) kB$", rollup, re.MULTILINE)
    if found is None:
        raise ValueError("no Rss line")
    return int(found.group(1)) * 1024


def parse_statm_rss_bytes(statm: str, page_bytes: int) -> int:
    return int(statm.split()[1]) * page_bytes
