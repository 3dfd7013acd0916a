"""`equipoise pub` and `equipoise sub`: output, errors in one line, exit status."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import equipoise
from equipoise.cli.sub import as_json, describe_gap, printable
from equipoise.processes import free_port
from support.processes import ROOT, ServerProcess, hub

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with hub() as process:
        yield process


def url_of(server: ServerProcess) -> str:
    return f"equipoise://127.0.0.1:{server.port}"


def start(name: str, *words: str, url: str, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Run a command by itself, without the list of commands around it.

    As from a terminal: a test run that a shell has put into the background passes on that SIGINT is ignored.
    """
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"import typer; from equipoise.cli import {name}; typer.run({name}.command)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"EQUIPOISE_URL": url, "PYTHONPATH": str(ROOT / "src")},
    )


def finish(process: subprocess.Popen[str], given: str | None = None) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(given, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"still running after {TIMEOUT_S} s: {process.communicate()}") from None
    return process.returncode, out, err


def run(name: str, *words: str, url: str) -> tuple[int, str, str]:
    return finish(start(name, *words, url=url))


def publish_heard(server: ServerProcess, topic: str, *payloads: bytes) -> None:
    """Publish so that a command that is just starting gets all: repeat the first one until it has a receiver."""

    async def publish() -> None:
        async with asyncio.timeout(TIMEOUT_S), equipoise.connect(url_of(server)) as bus:
            while (await bus.publish(topic, payloads[0])).receivers == 0:  # noqa: ASYNC110  # in another process
                await asyncio.sleep(0.01)
            for payload in payloads[1:]:
                await bus.publish(topic, payload)

    asyncio.run(publish())


def test_sub_prints_what_pub_publishes(server: ServerProcess) -> None:
    listening = start("sub", "news", "--count", "4", url=url_of(server))
    publish_heard(server, "news", b"first")
    assert run("pub", "news", "héllo", url=url_of(server)) == (0, "published 1 message to news\n", "")
    assert run("pub", "news", "--size", "3", "--count", "2", "--rate", "500", url=url_of(server)) == (
        0,
        "published 2 messages to news\n",
        "",
    )
    assert finish(listening) == (0, "first\nhéllo\nxxx\nxxx\n", "")


def test_pub_publishes_the_lines_of_a_pipe_and_of_a_file(server: ServerProcess, tmp_path: Path) -> None:
    listening = start("sub", "lines", "--count", "6", url=url_of(server))
    publish_heard(server, "lines", b"first")
    piped = start("pub", "lines", "--stdin", url=url_of(server), stdin=subprocess.PIPE)
    assert finish(piped, "one\n\ntwo")[:2] == (0, "published 3 messages to lines\n")
    (tmp_path / "lines").write_text("three\r\nfour\n")
    with (tmp_path / "lines").open() as lines:
        from_file = start("pub", "lines", "--stdin", url=url_of(server), stdin=lines.fileno())
        assert finish(from_file)[:2] == (0, "published 2 messages to lines\n")
    assert run("pub", "lines", "--stdin", url=url_of(server))[:2] == (0, "published 0 messages to lines\n")
    assert finish(listening) == (0, "first\none\n\ntwo\nthree\nfour\n", "")


def test_sub_shows_topics_of_patterns_positions_and_harmless_text(server: ServerProcess) -> None:
    listening = start("sub", "-p", "pa?", "--positions", "--count", "2", url=url_of(server))
    publish_heard(server, "pat", b"x\ty", b"\x1b[31m\xff\n")
    status, out, err = finish(listening)
    words = [line.split(" ", 2) for line in out.splitlines()]
    assert (status, err) == (0, "")
    assert [line[1:] for line in words] == [["pat", "x\ty"], ["pat", "\\x1b[31m\\xff\\n"]]
    assert int(words[1][0].partition(":")[2]) == int(words[0][0].partition(":")[2]) + 1


def test_sub_prints_json(server: ServerProcess) -> None:
    listening = start("sub", "j", "--json", "--count", "2", url=url_of(server))
    publish_heard(server, "j", b"text", b"\xff")
    first, second = map(json.loads, finish(listening)[1].splitlines())
    assert (first["topic"], first["payload"]) == ("j", "text")
    assert second["position"] == {"epoch": first["position"]["epoch"], "n": first["position"]["n"] + 1}
    assert second["payload_base64"] == "/w=="


def test_a_certificate_is_enough_to_log_in(tmp_path: Path) -> None:
    authority = trustme.CA()
    ours, theirs = authority.issue_cert("127.0.0.1"), authority.issue_cert("ann", common_name="ann.example")
    files = {name: str(tmp_path / name) for name in ("ca.pem", "hub.pem", "chain.pem", "key.pem")}
    authority.cert_pem.write_to_path(files["ca.pem"])
    ours.private_key_and_cert_chain_pem.write_to_path(files["hub.pem"])
    theirs.cert_chain_pems[0].write_to_path(files["chain.pem"])
    theirs.private_key_pem.write_to_path(files["key.pem"])
    users = tmp_path / "users.toml"
    users.write_text('[users.ann]\ncertificates = ["ann.example"]\ncreate = ["*"]\npublish = ["*"]\n')
    options = [
        "--users",
        str(users),
        "--tls-client-ca",
        files["ca.pem"],
        "--tls-port",
        str(port := free_port()),
    ]
    options += ["--tls-certificate", files["hub.pem"], "--tls-key", files["hub.pem"]]
    with hub(*options):
        words = ["news", "x", "--tls-ca", files["ca.pem"]]
        url = f"equipoises://127.0.0.1:{port}"
        status, _, complaint = run("pub", *words, url=url)
        assert (status, complaint.startswith("equipoise: NOAUTH")) == (1, True)
        proof = ["--tls-cert", files["chain.pem"], "--tls-key", files["key.pem"]]
        assert run("pub", *words, *proof, url=url) == (0, "published 1 message to news\n", "")


def test_ctrl_c_ends_quietly_with_130(server: ServerProcess) -> None:
    listening = start("sub", "ctrl-c", url=url_of(server))
    publish_heard(server, "ctrl-c", b"x")
    assert listening.stdout is not None and listening.stdout.readline() == "x\n"
    listening.send_signal(signal.SIGINT)
    assert finish(listening) == (130, "", "")


def test_a_closed_pipe_ends_sub_quietly(server: ServerProcess) -> None:
    listening = start("sub", "pipe", url=url_of(server))
    assert listening.stdout is not None and listening.stderr is not None
    publish_heard(server, "pipe", b"x")
    listening.stdout.readline()
    listening.stdout.close()
    publish_heard(server, "pipe", b"y")
    assert listening.wait(TIMEOUT_S) == 0
    assert listening.stderr.read() == ""
    listening.stderr.close()


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (["pub", "t", "x", "--url", "nonsense"], 2, "equipoise: the bus URL has no scheme; write it like"),
        (["pub", "t", "--size", "2000000"], 2, "equipoise: the payload has 2000000 bytes, over"),
        (["pub", "t"], 2, "give one of PAYLOAD, --stdin and --size"),
        (["pub", "t", "x", "--stdin"], 2, "give one of PAYLOAD, --stdin and --size"),
        (["pub", "t", "--stdin", "--count", "2"], 2, "leave out --count"),
        (["pub", "t", "x", "--count", "0"], 2, "--count"),
        (["sub"], 2, "TOPIC"),
        (["sub", "t", "--group", "g"], 2, "give --durable NAME too"),
        (["sub", "t", "--start", "beginning"], 2, "give --durable NAME too"),
    ],
)
def test_wrong_usage_exits_with_status_2(
    server: ServerProcess, words: list[str], status: int, complaint: str
) -> None:
    got, out, err = run(*words, url=url_of(server))
    assert (got, out) == (status, "")
    assert complaint in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["pub", "t", "x"], ["sub", "t"]])
def test_an_unreachable_hub_is_one_line_and_status_1(words: list[str]) -> None:
    port = free_port()
    assert run(*words, url=f"equipoise://127.0.0.1:{port}") == (
        1,
        "",
        f"equipoise: 127.0.0.1:{port}: no server listens there; "
        "start a hub with `equipoise hub`, or check the address\n",
    )


def test_help_has_an_example(server: ServerProcess) -> None:
    for name in ("pub", "sub"):
        status, out, _ = run(name, "--help", url=url_of(server))
        assert status == 0
        assert "Try it:" in out and "EQUIPOISE_URL" in out


def test_gaps_are_printed_as_text_and_as_json() -> None:
    counted = equipoise.Gap("news", 3, equipoise.GapReason.QUEUE_FULL)
    unknown = equipoise.Gap(None, None, equipoise.GapReason.RECONNECTED, "n*")
    assert describe_gap(counted) == "equipoise: gap in news: 3 missed (queue full)"
    assert describe_gap(unknown) == "equipoise: gap in topics like n*: messages may be missing (reconnected)"
    assert as_json(counted) == {"topic": "news", "missed": 3, "reason": "queue full"}
    assert as_json(unknown) == {"topic": None, "pattern": "n*", "missed": None, "reason": "reconnected"}


def test_nothing_that_is_printed_can_move_the_cursor() -> None:
    every = bytes(range(256)).decode("latin-1").encode()
    assert all(character.isprintable() or character == "\t" for character in printable(every))
