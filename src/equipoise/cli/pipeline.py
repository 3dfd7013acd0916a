"""`equipoise pipeline`: turn what hubs record into the view, and keep it, on Spark."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.errors import SettingsError


def command(
    store: Annotated[
        str, typer.Option(help="Where hubs meet: zk://host:port/root.", envvar="EQUIPOISE_STORE")
    ] = "",
    region: Annotated[str, typer.Option(help="Which system of hubs in that store.")] = "default",
    hubs: Annotated[
        str, typer.Option(help="Hubs in place of a store's: name=host:port,name=host:port.")
    ] = "",
    to: Annotated[
        str, typer.Option(help="HOST:PORT that takes views; by default the controller that leads.")
    ] = "",
    directory: Annotated[
        Path, typer.Option("--dir", help="Where checkpoint and lake are kept from one run to the next.")
    ] = Path("equipoise-pipeline"),
    master: Annotated[
        str, typer.Option(help="local[*] for this machine, or spark://host:port of a cluster.")
    ] = "local[*]",
    driver_host: Annotated[
        str, typer.Option(help="Address of this machine that a cluster's executors can reach.")
    ] = "127.0.0.1",
    memory: Annotated[int, typer.Option(min=256, help="Heap of the driver, in MiB.")] = 640,
    user: Annotated[str, typer.Option(help="Who asks the hubs; needs the right `operate`.")] = "",
    secret_file: Annotated[Path | None, typer.Option(help="File with that user's secret.")] = None,
    tls_ca: Annotated[str, typer.Option("--tls-ca", help="Authority of the hubs' certificates (PEM).")] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that the controller wants to see.")
    ] = None,
    lake: Annotated[bool, typer.Option(help="Keep history.")] = True,
    retention_hours: Annotated[int, typer.Option(min=1, help="How much of it.")] = 168,
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Read what hubs record, send the controller its view each second, keep history as Parquet. Needs Java 17 or newer.

    It goes on where it stopped: what hubs still have is read once, whatever happened meanwhile.
    """
    set_up_logs(log_format, verbose=verbose)
    # The bridge to the JVM tells every broken connection with a traceback; what matters of it is told by us.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with exit_on_failure():
        if bool(store) == bool(hubs):
            raise SettingsError("give either --store zk://host:port/root or --hubs name=host:port,…")
        if hubs and not to:
            raise SettingsError(
                "--hubs without a store says nothing about the controller: give --to HOST:PORT"
            )
        _require_spark()
        # Here, so that only this command loads Spark.
        from equipoise.pipeline.process import run
        from equipoise.pipeline.settings import (
            KeepingSettings,
            PipelineSettings,
            SessionSettings,
            SourceSettings,
        )

        source = SourceSettings(
            hubs=store or hubs, region=region, user=user, secret=_word(secret_file), tls_ca=tls_ca
        )
        settings = PipelineSettings(
            source=source,
            directory=directory.absolute(),
            lake_enabled=lake,
            keeping=KeepingSettings(retention_h=retention_hours),
        )
        spark = SessionSettings(master=master, driver_memory_mib=memory, driver_host=driver_host)
        run(settings, spark, to=to, token=_word(token_file))


def _require_spark() -> None:
    """Say what is missing before anything imports it."""
    from equipoise.pipeline.spark.spark_home import require_spark

    require_spark()


def _word(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as problem:
        raise SettingsError(f"cannot read {path}: {os.strerror(problem.errno or 0)}") from problem
