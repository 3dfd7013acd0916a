"""`equipoise pub`: publish messages from the command line, from standard input, or generated."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Annotated

import typer

from equipoise.cli.support.client_connection import URL_DEFAULT, TlsCa, TlsCert, TlsKey, TlsOptions, Url, run
from equipoise.cli.support.progress import progress_bar
from equipoise.cli.support.store_options import AsJson
from equipoise.cli.support.tables import show_result
from equipoise.client import Bus, ClientSettings
from equipoise.errors import BackloggedError, LimitError

_TELL_EVERY = 1_000
LINE_BYTES_MAX = ClientSettings().payload_bytes_max


def command(
    topic: Annotated[str, typer.Argument(help="Topic to publish to; created on first use.")],
    payload: Annotated[str | None, typer.Argument(help="Message. Or use --stdin or --size.")] = None,
    *,
    url: Url = URL_DEFAULT,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Publish each line of standard input as a message.")
    ] = False,
    count: Annotated[int, typer.Option(min=1, help="Publish the message this many times.")] = 1,
    rate: Annotated[
        float,
        typer.Option(min=0, help="Maximum messages per second. 0: as fast as the hub accepts them."),
    ] = 0.0,
    size: Annotated[
        int | None, typer.Option(min=0, help="Publish a generated message of this many bytes.")
    ] = None,
    as_json: AsJson = False,
    tls_ca: TlsCa = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
) -> None:
    """Publish to a topic.

    Try it: run `equipoise hub` in one terminal, `equipoise sub news` in another, and here `equipoise pub news hello`.

    More: `equipoise pub news --stdin < lines.txt`, `equipoise pub load --size 100 --count 10000 --rate 1000`.
    """
    if [payload is not None, stdin, size is not None].count(True) != 1:
        raise typer.BadParameter("give one of PAYLOAD, --stdin and --size", param_hint="PAYLOAD")
    if stdin and count != 1:
        raise typer.BadParameter("--stdin publishes each line once; leave out --count", param_hint="--count")
    data = b"x" * size if size is not None else os.fsencode(payload or "")
    payloads = lines_of_stdin() if stdin else repeat(data, count)
    run(
        url,
        TlsOptions(tls_ca, tls_cert, tls_key),
        "equipoise-pub",
        lambda bus: publish(bus, topic, payloads, rate, count, as_json),
    )


async def publish(
    bus: Bus, topic: str, payloads: AsyncIterator[bytes], rate: float, count: int, as_json: bool
) -> None:
    loop = asyncio.get_running_loop()
    sent = 0
    # Standard input may be endless and has its own rate; one message is sent quickly.
    shown = (
        progress_bar(f"publishing to {topic}", count, "messages")
        if count > 1
        else nullcontext(lambda _: None)
    )
    async with bus:
        began = loop.time()
        with shown as tell:
            async for payload in payloads:
                if rate:
                    await asyncio.sleep(began + sent / rate - loop.time())
                await send(bus, topic, payload)
                sent += 1
                if sent % _TELL_EVERY == 0 or rate:
                    tell(sent)
            await bus.flush()
    words = f"published {sent} {'message' if sent == 1 else 'messages'} to {topic}"
    show_result({"topic": topic, "published": sent}, words, as_json=as_json)


async def send(bus: Bus, topic: str, payload: bytes) -> None:
    """Publish without waiting for the ack, in bulk; the final flush raises if a message was refused."""
    try:
        bus.publish_nowait(topic, payload)
    except BackloggedError:
        await bus.flush()
        bus.publish_nowait(topic, payload)


async def repeat(payload: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield payload


async def lines_of_stdin() -> AsyncIterator[bytes]:
    """Lines without line ends, as they arrive."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        # Files and devices cannot be awaited, and need not be: they do not block.
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
        return
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        async for line in reader:
            yield line.rstrip(b"\r\n")
    except ValueError as error:
        raise LimitError(f"a line of standard input is over {LINE_BYTES_MAX} bytes; split it") from error
