"""`equipoise gateway`: run one gateway until it is stopped."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from typing import Annotated

import typer
import uvloop

from equipoise.cli.support.client_connection import TlsCa, TlsCert, TlsKey
from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.client.settings import ClientSettings, make_settings
from equipoise.gateway import Gateway, GatewaySettings

log = logging.getLogger("equipoise.gateway")

# Interval between two log lines about the coordinate.
_SAY_S = 60.0


def command(
    hubs: Annotated[
        str,
        typer.Option(
            envvar="EQUIPOISE_URL",
            help="Hubs to measure, three or more if possible: equipoise://user:secret@host:port,host:port.",
        ),
    ],
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65_535)
    ] = 6_390,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    tls_ca: TlsCa = "",
    tls_cert: TlsCert = "",
    tls_key: TlsKey = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the ready line as JSON.")] = False,
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a gateway: it measures its network coordinate and gives it to mobile clients nearby.

    Run one where mobile clients enter the network, such as beside a base station. Give its address to clients as
    `coordinate_gateway`, or to `Bus.use_gateway` when they come near.
    """
    set_up_logs(log_format, verbose=verbose)
    with exit_on_failure():
        files = {"tls_ca_file": tls_ca, "tls_cert_file": tls_cert, "tls_key_file": tls_key}
        client = make_settings(ClientSettings(name="gateway"), files)
        gateway = Gateway(hubs, GatewaySettings(host=host, port=port), client=client)
        uvloop.run(serve(gateway, as_json=as_json))


async def serve(gateway: Gateway, *, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await gateway.start()
    host, port = gateway.settings.host, gateway.port
    ready = {"ready": True, "host": host, "port": port}
    print(json.dumps(ready) if as_json else f"equipoise gateway ready on {host}:{port}", flush=True)
    try:
        while not stopped.is_set():
            try:
                await asyncio.wait_for(stopped.wait(), _SAY_S)
            except TimeoutError:
                print_location(gateway)
    finally:
        await gateway.stop()


def print_location(gateway: Gateway) -> None:
    at = gateway.coordinate
    if at is None:
        log.warning("coordinate not known yet; the log above names hubs that do not answer")
    else:
        log.info(
            "coordinate known, with an error of about %.0f %% of a distance",
            100 * at.error,
            extra={"coordinate": at.numbers, "clients": len(gateway.clients)},
        )
