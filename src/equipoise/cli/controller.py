"""`equipoise controller`: plan for all hubs, or stand by until somebody has to."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.errors import SettingsError
from equipoise.hub.access.connection_limits import is_loopback
from equipoise.model.address import split_address
from equipoise.store.tree import Tree

LoopbackReads = Annotated[
    bool, typer.Option("--loopback-reads", help="Whoever is on this machine may look without the token.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="Settings file (TOML): table `controller` for what has no option, `planner` for the policy's constants."
    ),
]
Advertise = Annotated[
    str,
    typer.Option(
        metavar="HOST",
        help="By which host others reach this one, for views and pages, if it listens on every address.",
    ),
]
Provision = Annotated[
    str,
    typer.Option(help="How hubs are asked for: none, store, or a command called with start/stop NAME."),
]


def command(
    store: Annotated[
        str, typer.Option(help="Where hubs meet: zk://host:port/root.", envvar="EQUIPOISE_STORE")
    ],
    name: Annotated[str, typer.Option(help="Its name among controllers; this machine's if not given.")] = "",
    region: Annotated[str, typer.Option(help="Which system of hubs in that store.")] = "default",
    site: Annotated[str, typer.Option(help="Where it stands.")] = "",
    sites: Annotated[
        str, typer.Option(help="Sites whose controllers may lead, by comma; any if empty.")
    ] = "",
    policy: Annotated[str, typer.Option(help="How it plans: load, hashing or static.")] = "load",
    period: Annotated[float, typer.Option(min=0.1, help="Seconds between rounds.")] = 5.0,
    intake: Annotated[
        str, typer.Option(help="HOST:PORT to take views on; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    http: Annotated[str, typer.Option(help="HOST:PORT of the dashboard; empty: none.")] = "127.0.0.1:6398",
    advertise: Advertise = "",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that operators and the pipeline show.")
    ] = None,
    loopback_reads: LoopbackReads = False,
    config: Config = None,
    hubs_min: Annotated[int, typer.Option(min=1, help="Hubs that are never given back.")] = 1,
    hubs_max: Annotated[
        int, typer.Option(min=0, help="Hubs there may be by asking; 0: it asks for none.")
    ] = 0,
    provision: Provision = "none",
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Turn what the pipeline measures into plans, and serve the dashboard.

    Run as many as you like: one leads, the others stand by. Hubs go on without any.
    """
    set_up_logs(log_format, verbose=verbose)
    with exit_on_failure():
        token = _token(token_file)
        if not token and not is_loopback(_address(intake)[0]):
            raise SettingsError(
                f"{intake} is not loopback: give --token-file, or whoever can connect may plan"
            )
        wanted: dict[str, Any] = {
            "settings": {
                "name": name or socket.gethostname(),
                "site": site,
                "sites": tuple(part.strip() for part in sites.split(",") if part.strip()),
                "policy": policy,
                "period_s": period,
                "hubs_min": hubs_min,
                "hubs_max": hubs_max,
            },
            "store_url": store,
            "tree": Tree(region),
            "intake": _address(intake),
            "http": _address(http) if http else None,
            "advertise": _host(advertise),
            "token": token,
            "loopback_reads": loopback_reads,
            "config": config,
            "provision": provision,
        }
        # Here, so that only this command loads Arrow and a web server.
        from equipoise.cli.support.controller_process import run

        run(**wanted)


def _address(text: str) -> tuple[str, int]:
    found = split_address(text)
    if found is None:
        raise SettingsError(f"{text!r} is no address: give HOST:PORT")
    return found


def _host(advertise: str) -> str:
    """The ports are those it listens on, so a host is all there is to say."""
    host = advertise.strip("[]")
    if "/" in host or (split_address(host) is not None and host.count(":") == 1):
        raise SettingsError(
            f"--advertise {advertise}: give the host alone, such as {host.rpartition(':')[0] or 'db7.example'}; "
            "the ports are those of --intake and --http"
        )
    return host


def _token(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        token = path.read_text().strip()
    except OSError as problem:
        raise SettingsError(f"cannot read the token file {path}: {problem.strerror}") from problem
    if len(token) < 16:
        raise SettingsError(f"the token in {path} has {len(token)} characters: use 16 or more")
    return token
