"""`equipoise controller`: run a controller; one leads, the others stand by."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.control.settings import policy_lines
from equipoise.errors import SettingsError
from equipoise.hub.access.connection_limits import is_loopback
from equipoise.model.address import split_address
from equipoise.store.tree import Tree

LoopbackReads = Annotated[
    bool,
    typer.Option(
        "--loopback-reads", help="Clients on this machine may read the dashboard without the token."
    ),
]
TlsCertificate = Annotated[
    str,
    typer.Option(
        help="Certificate of the dashboard (PEM): it is served over HTTPS. Read again on SIGHUP.",
    ),
]
TlsKey = Annotated[str, typer.Option(help="Private key of --tls-certificate (PEM).")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="Settings file (TOML): table `controller` for settings without an option, `planner` for "
        "the policy."
    ),
]
# A paragraph is a line of the help.
PolicyName = Annotated[str, typer.Option(help="\n\n".join(["Planning policy.", policy_lines("\n\n")]))]
Advertise = Annotated[
    str,
    typer.Option(
        metavar="HOST",
        help="Host at which others reach this controller, if it listens on every address.",
    ),
]
Provision = Annotated[
    str,
    typer.Option(
        help="How hubs are started and stopped: none, store, or a command that is called with "
        "start/stop NAME."
    ),
]


def command(
    store: Annotated[
        str,
        typer.Option(help="Metadata store of the cluster: zk://host:port/root.", envvar="EQUIPOISE_STORE"),
    ],
    name: Annotated[str, typer.Option(help="Name of the controller. Without it, the host name.")] = "",
    region: Annotated[str, typer.Option(help="Name of the cluster inside the store.")] = "default",
    site: Annotated[str, typer.Option(help="Site of the controller.")] = "",
    sites: Annotated[
        str, typer.Option(help="Sites whose controllers may lead, separated by commas; empty: all.")
    ] = "",
    policy: PolicyName = "load",
    period: Annotated[float, typer.Option(min=0.1, help="Seconds between planning rounds.")] = 5.0,
    intake: Annotated[
        str, typer.Option(help="HOST:PORT to receive views on; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    http: Annotated[
        str, typer.Option(help="HOST:PORT of dashboard, API and metrics; empty: none.")
    ] = "127.0.0.1:6398",
    advertise: Advertise = "",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token of operators and the pipeline.")
    ] = None,
    loopback_reads: LoopbackReads = False,
    tls_certificate: TlsCertificate = "",
    tls_key: TlsKey = "",
    config: Config = None,
    hubs_min: Annotated[int, typer.Option(min=1, help="Minimum number of hubs.")] = 1,
    hubs_max: Annotated[int, typer.Option(min=0, help="Maximum number of hubs to start; 0: start none.")] = 0,
    provision: Provision = "none",
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a controller: plan from the pipeline's view, and serve the dashboard.

    Run several for failover: one leads, the others stand by. Without a controller hubs keep the last plan.
    """
    set_up_logs(log_format, verbose=verbose)
    with exit_on_failure():
        token = _token(token_file)
        if not token and not is_loopback(_address(intake)[0]):
            raise SettingsError(
                f"{intake} is not loopback: give --token-file, or every client that connects could send views"
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
            "tls_certificate": tls_certificate,
            "tls_key": tls_key,
            "config": config,
            "provision": provision,
        }
        # Imported here, so that only this command loads Arrow and a web server.
        from equipoise.cli.support.controller_process import run

        run(**wanted)


def _address(text: str) -> tuple[str, int]:
    found = split_address(text)
    if found is None:
        raise SettingsError(f"{text!r} is not an address: give HOST:PORT")
    return found


def _host(advertise: str) -> str:
    """The host of --advertise; the ports are those it listens on."""
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
