"""What `pub` and `sub` share: where the hub is, and running until done, interrupted or failed."""

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
        help="Where the hub is: equipoise://user:secret@host:port, or equipoises:// with TLS.",
    ),
]
TlsCa = Annotated[
    str,
    typer.Option("--tls-ca", help="Authority that signed the hub's certificate (PEM). Empty: the system's."),
]
TlsCert = Annotated[
    str,
    typer.Option("--tls-cert", help="Your certificate (PEM), where the hub knows users by it. Empty: none."),
]
TlsKey = Annotated[str, typer.Option("--tls-key", help="The key of your certificate (PEM).")]


@dataclass(frozen=True, slots=True)
class Tls:
    """What the two commands were told about TLS."""

    ca: str
    cert: str
    key: str


def run(url: str, tls: Tls, name: str, main: Callable[[Bus], Coroutine[Any, Any, None]]) -> None:
    """Ctrl-C ends with status 130, without a word; so does, with 0, a reader of our output that has had enough."""
    logging.basicConfig(format="equipoise: %(message)s")
    try:
        with exit_on_failure():
            bus = connect(url, tls_ca_file=tls.ca, tls_cert_file=tls.cert, tls_key_file=tls.key, name=name)
            uvloop.run(main(bus))
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends; let it do so into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
