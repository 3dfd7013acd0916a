"""Options of `pub` and `sub`, and running them until done, interrupted or failed."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import typer
import uvloop

from equipoise.cli.support.failures import exit_on_failure
from equipoise.client import Bus, connect

URL_DEFAULT = "equipoise://127.0.0.1:6399"

Url = Annotated[
    str,
    typer.Option(
        envvar="EQUIPOISE_URL",
        help="URL of the hub: equipoise://user:secret@host:port, or equipoises:// for TLS.",
    ),
]
TlsCa = Annotated[
    str,
    typer.Option("--tls-ca", help="CA of the hub's certificate (PEM). Empty: the system's CAs."),
]
TlsCert = Annotated[
    str,
    typer.Option(
        "--tls-cert", help="Client certificate (PEM), if the hub authenticates by certificate. Empty: none."
    ),
]
TlsKey = Annotated[str, typer.Option("--tls-key", help="Private key of the client certificate (PEM).")]


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS options of the two commands."""

    ca: str
    cert: str
    key: str


def run(url: str, tls: TlsOptions, name: str, main: Callable[[Bus], Coroutine[Any, Any, None]]) -> None:
    """Ctrl-C ends with status 130, without output; a closed output pipe ends with 0."""
    logging.basicConfig(format="equipoise: %(message)s")
    try:
        with exit_on_failure():
            bus = connect(url, tls_ca_file=tls.ca, tls_cert_file=tls.cert, tls_key_file=tls.key, name=name)
            uvloop.run(main(bus))
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends; let it do so into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
