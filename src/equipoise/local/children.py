"""Command lines and health checks of the parts of a local cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.local.checks import accepts, controller_answers, hub_answers, pipeline_works
from equipoise.local.layout import HOST, Layout
from equipoise.processes import Check, ChildSpec

if TYPE_CHECKING:
    from equipoise.local.authority import HubCertificate

__all__ = [
    "DASHBOARD",
    "DASHBOARD_PORT",
    "Addresses",
    "bookie",
    "controller",
    "hub",
    "pipeline",
    "tls_port_name",
]

# The pages have a port of their own, beside the controller's for views.
DASHBOARD = "dashboard"
DASHBOARD_PORT = 6398
# The user of hubs and the pipeline for logins at hubs, once there are users.
HUBS_USER = "hubs"

_HUB_READY = re.compile(r"^equipoise hub \S+ ready on \S+:(?P<port>\d+)", re.MULTILINE)
_BOOKIE_READY = re.compile(r"^equipoise bookie \S+ ready on", re.MULTILINE)
_CONTROLLER_READY = re.compile(r"^equipoise controller \S+ ready on (?P<intake>\S+)", re.MULTILINE)
_PIPELINE_READY = re.compile(r"^equipoise pipeline ready", re.MULTILINE)

# Both take a second or two. On an overloaded machine they take a minute, and restarts before that would only add load.
_READY_S_MAX = 120.0
# Spark takes a quarter of a minute, and many times that on an overloaded machine.
_SPARK_READY_S_MAX = 240.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """The common parameters of all parts."""

    store_url: str
    region: str = "default"
    # The file with the password for logins among hubs; None: no login, or one in their own settings.
    hubs_password: Path | None = None


def _program(*words: str) -> list[str]:
    # The interpreter's own command: it may not be on PATH.
    return [sys.executable, "-m", "equipoise.cli.main", *words]


def _spec(
    layout: Layout,
    name: str,
    words: Sequence[str],
    ready: re.Pattern[str],
    check: Check,
    *,
    ready_timeout_s: float,
) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=_program(*words),
        log_path=layout.log(name),
        ready=ready,
        check=check,
        ready_timeout_s=ready_timeout_s,
        environment={"PYTHONUNBUFFERED": "1"},
    )


def hub(
    layout: Layout,
    addresses: Addresses,
    name: str,
    *,
    site: str = "",
    preferred: int = 0,
    certificate: HubCertificate | None = None,
    extra: Sequence[str] = (),
) -> ChildSpec:
    """`certificate`: the hub serves TLS as well, and links to other hubs use it."""
    port = layout.port(name, preferred)
    where = [
        "--host",
        HOST,
        "--port",
        str(port),
        "--store",
        addresses.store_url,
        "--region",
        addresses.region,
    ]
    place = ["--site", site] if site else []
    login = _login(addresses, "--cluster-user", "--cluster-password-file")
    # A system on one machine is for trials: the dashboard shows measured latency of all topics.
    measured = ["--tcp-rtt-for", "all"]
    tls = [] if certificate is None else _tls(certificate, layout.port(tls_port_name(name)))
    words = ["hub", "--name", name, *where, *place, *login, *measured, *tls, *extra]
    return _spec(layout, name, words, _HUB_READY, hub_answers(HOST, port), ready_timeout_s=_READY_S_MAX)


def tls_port_name(hub: str) -> str:
    """The name of a hub's TLS port in the layout."""
    return f"{hub}-tls"


def _tls(certificate: HubCertificate, port: int) -> list[str]:
    return [
        *("--tls-port", str(port), "--tls-certificate", str(certificate.certificate)),
        *("--tls-key", str(certificate.key), "--tls-client-ca", str(certificate.ca)),
        *("--link-tls-ca", str(certificate.ca)),
    ]


def bookie(layout: Layout, addresses: Addresses, name: str, *, site: str = "") -> ChildSpec:
    """On one machine each bookie counts as a rack of its own: entries are spread over all of them."""
    port = layout.port(name)
    where = [
        "--store",
        addresses.store_url,
        "--region",
        addresses.region,
        "--host",
        HOST,
        "--port",
        str(port),
    ]
    place = ["--site", site] if site else []
    words = ["bookie", "--name", name, "--dir", str(layout.bookie(name)), *where, "--rack", name, *place]
    return _spec(layout, name, words, _BOOKIE_READY, accepts(HOST, port), ready_timeout_s=_READY_S_MAX)


def controller(
    layout: Layout,
    addresses: Addresses,
    *,
    hubs_min: int,
    hubs_max: int,
    certificate: HubCertificate | None = None,
    extra: Sequence[str] = (),
) -> ChildSpec:
    """`certificate`: the dashboard is served over HTTPS."""
    port = layout.port("controller")
    where = ["--store", addresses.store_url, "--region", addresses.region, "--intake", f"{HOST}:{port}"]
    bounds = ["--hubs-min", str(hubs_min), "--hubs-max", str(hubs_max)]
    pages_port = layout.port(DASHBOARD, DASHBOARD_PORT)
    pages = ["--http", f"{HOST}:{pages_port}", "--loopback-reads"]
    token = ["--token-file", str(layout.token())]
    tls: list[str] = []
    if certificate is not None:
        tls = ["--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key)]
    words = ["controller", *where, *bounds, *pages, *token, *tls, "--provision", "store", *extra]
    check = controller_answers(HOST, pages_port, tls_ca=None if certificate is None else certificate.ca)
    return _spec(layout, "controller", words, _CONTROLLER_READY, check, ready_timeout_s=_READY_S_MAX)


def pipeline(
    layout: Layout, addresses: Addresses, *, is_fed: Callable[[], bool], extra: Sequence[str] = ()
) -> ChildSpec:
    """`is_fed`: whether there is a hub to read from."""
    where = ["--store", addresses.store_url, "--region", addresses.region, "--dir", str(layout.pipeline)]
    token = ["--token-file", str(layout.token())]
    words = ["pipeline", *where, *token, *_login(addresses, "--user", "--secret-file"), *extra]
    check = pipeline_works(layout.pipeline / "checkpoint", is_fed=is_fed)
    return _spec(layout, "pipeline", words, _PIPELINE_READY, check, ready_timeout_s=_SPARK_READY_S_MAX)


def _login(addresses: Addresses, user_option: str, file_option: str) -> list[str]:
    """Set from the start on, so that users can be added while the system runs."""
    if addresses.hubs_password is None:
        return []
    return [user_option, HUBS_USER, file_option, str(addresses.hubs_password)]
