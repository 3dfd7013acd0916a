"""The directory of a system on one machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.errors import SettingsError
from equipoise.local import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout(tmp_path / "data")
    made.lock()
    yield made
    made.unlock()


def test_a_directory_is_used_by_one_supervisor_at_a_time(layout: Layout) -> None:
    other = Layout(layout.root)
    with pytest.raises(SettingsError, match="in use by another"):
        other.lock()
    layout.unlock()
    other.unlock()
    other = Layout(layout.root)
    other.lock()
    other.unlock()


def test_ports_are_the_same_from_one_run_to_the_next(layout: Layout) -> None:
    first = {name: layout.port(name) for name in ("hub-1", "hub-2")}
    layout.unlock()
    again = Layout(layout.root)
    again.lock()
    assert {name: again.port(name) for name in first} == first
    assert again.known_port("hub-1") == first["hub-1"]
    again.unlock()


def test_a_port_in_use_is_skipped(layout: Layout) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        chosen = layout.port("hub-1", port)
        assert chosen != port
    assert layout.port("hub-1", port) == chosen


def test_two_processes_never_get_one_port(layout: Layout) -> None:
    first = layout.port("hub-1")
    assert layout.port("hub-2", first) != first


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"hub-1": "x", "hub-2": -1}'])
def test_an_unreadable_list_of_ports_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text)
    layout = Layout(tmp_path)
    layout.lock()
    assert layout.port("hub-1") > 0
    layout.unlock()


def test_a_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot use"):
        Layout(tmp_path / "file" / "data").lock()
