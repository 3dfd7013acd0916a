"""INFO and COMMAND replies with the hub's own content have the form that clients expect."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from conformance.conftest import Servers
from support.processes import ServerProcess

HUB_COMMANDS = [
    "auth", "client", "command", "config", "echo", "hello", "info", "ping", "psubscribe", "publish", "pubsub",
    "punsubscribe", "quit", "reset", "select", "spublish", "ssubscribe", "subscribe", "sunsubscribe", "unsubscribe",
]  # fmt: skip


def call(server: ServerProcess, *arguments: str, protocol: int = 2) -> Any:
    with redis.Redis(host=server.host, port=server.port, protocol=protocol, decode_responses=True) as client:
        client.response_callbacks.clear()
        return client.execute_command(*arguments)


def pairs(reply: Any) -> dict[str, Any]:
    """A map of RESP3, or its flat list in RESP2."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


@pytest.mark.parametrize("server", ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)])
@pytest.mark.parametrize("protocol", [2, 3])
def test_the_documentation_of_a_command_has_its_keys(servers: Servers, server: str, protocol: int) -> None:
    docs = pairs(call(servers.get(server), "COMMAND", "DOCS", "publish", "PING", protocol=protocol))
    assert set(docs) == {"publish", "ping"}
    about = pairs(docs["publish"])
    assert {"summary", "since", "group"} <= set(about)
    assert about["group"] == "pubsub"
    assert about["summary"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_documentation_of_all_commands_lists_every_command(hub: ServerProcess, protocol: int) -> None:
    docs = pairs(call(hub, "COMMAND", "DOCS", protocol=protocol))
    assert set(HUB_COMMANDS) <= set(docs)
    assert len(docs) == call(hub, "COMMAND", "COUNT")


def test_command_count_equals_the_number_of_listed_commands(hub: ServerProcess) -> None:
    listed = call(hub, "COMMAND")
    assert len(listed) == call(hub, "COMMAND", "COUNT")
    assert {entry[0] for entry in listed} >= set(HUB_COMMANDS)
    assert {len(entry) for entry in listed} == {10}


@pytest.mark.parametrize("server", ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)])
def test_a_container_command_lists_its_subcommands(servers: Servers, server: str) -> None:
    (entry,) = call(servers.get(server), "COMMAND", "INFO", "client")
    subcommands = {subcommand[0] for subcommand in entry[9]}
    assert {"client|id", "client|setname", "client|list", "client|kill", "client|reply"} <= subcommands


@pytest.mark.parametrize("server", ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)])
@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("Server", "redis_version"),
        ("Server", "redis_mode"),
        ("Server", "run_id"),
        ("Server", "tcp_port"),
        ("Server", "uptime_in_seconds"),
        ("Server", "process_id"),
        ("Clients", "connected_clients"),
        ("Clients", "maxclients"),
        ("Memory", "used_memory"),
        ("Stats", "total_connections_received"),
        ("Stats", "total_commands_processed"),
        ("Stats", "pubsub_channels"),
        ("Stats", "pubsub_patterns"),
    ],
)
def test_information_has_the_sections_that_clients_read(
    servers: Servers, server: str, section: str, key: str
) -> None:
    for arguments in ([], [section], [section.lower()], ["all"], ["everything"], ["default"]):
        assert key in sections(call(servers.get(server), "INFO", *arguments))[section], arguments


@pytest.mark.parametrize("server", ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)])
def test_information_about_chosen_sections_has_only_those(servers: Servers, server: str) -> None:
    assert set(sections(call(servers.get(server), "INFO", "server"))) == {"Server"}
    assert set(sections(call(servers.get(server), "INFO", "clients", "stats"))) == {"Clients", "Stats"}


def test_information_has_an_equipoise_section(hub: ServerProcess) -> None:
    assert sections(call(hub, "INFO"))["Equipoise"]


def sections(text: str) -> dict[str, dict[str, str]]:
    """The fields of INFO by section; the text has to be as Redis writes it, CRLF and headings included."""
    found: dict[str, dict[str, str]] = {}
    for block in text.split("\r\n\r\n"):
        heading, *lines = block.strip("\r\n").split("\r\n")
        assert heading.startswith("# "), heading
        found[heading[2:]] = dict(line.split(":", 1) for line in lines)
    return found
