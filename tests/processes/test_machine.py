"""What the machine allows, read from files."""

from __future__ import annotations

from pathlib import Path

from equipoise.processes.machine import memory_bytes_free, network_bytes_per_s


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 4000 kB\n"}
ROUTE = "Iface\tDestination\tGateway\nlo\t0000007F\t0\neth7\t00000000\t0101A8C0\n"


def test_memory_is_what_the_machine_has_available(tmp_path: Path) -> None:
    assert memory_bytes_free(write(tmp_path, MEMINFO)) == 4000 * 1024


def test_memory_is_limited_by_a_control_group(tmp_path: Path) -> None:
    group = {"proc/self/cgroup": "0::/pod/hub\n"}
    limit = {
        "sys/fs/cgroup/pod/hub/memory.max": "1000000\n",
        "sys/fs/cgroup/pod/hub/memory.current": "400000\n",
    }
    assert memory_bytes_free(write(tmp_path, MEMINFO | group | limit)) == 600_000
    unlimited = {"sys/fs/cgroup/pod/hub/memory.max": "max\n"}
    assert memory_bytes_free(write(tmp_path, unlimited)) == 4000 * 1024


def test_the_network_is_as_fast_as_the_interface_of_the_default_route_says(tmp_path: Path) -> None:
    assert network_bytes_per_s(write(tmp_path, {"proc/net/route": ROUTE})) == 0.0
    assert network_bytes_per_s(write(tmp_path, {"sys/class/net/eth7/speed": "10000\n"})) == 1.25e9
    assert network_bytes_per_s(write(tmp_path, {"sys/class/net/eth7/speed": "-1\n"})) == 0.0


def test_without_such_files_the_limits_are_unknown(tmp_path: Path) -> None:
    assert (memory_bytes_free(tmp_path), network_bytes_per_s(tmp_path)) == (0, 0.0)
