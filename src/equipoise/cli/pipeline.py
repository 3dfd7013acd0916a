"""`equipoise pipeline`: turn telemetry into views, and keep history, on Spark."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.cli.support.spark_options import Master
from equipoise.errors import SettingsError
from equipoise.pipeline.sums_choice import SumsAt

DriverHost = Annotated[
    str,
    typer.Option(
        help="Address at which the executors of a Spark cluster reach this machine. Without it, the address of "
        "the route to the master."
    ),
]
Sums = Annotated[
    SumsAt,
    typer.Option(
        help="Where windows are summed: driver, in one thread; executors, in parallel, by hub; auto: executors "
        "above 100,000 records a second."
    ),
]


def command(
    store: Annotated[
        str,
        typer.Option(help="Metadata store of the cluster: zk://host:port/root.", envvar="EQUIPOISE_STORE"),
    ] = "",
    region: Annotated[str, typer.Option(help="Name of the cluster inside the store.")] = "default",
    hubs: Annotated[
        str, typer.Option(help="Hubs to read, instead of those in the store: name=host:port,name=host:port.")
    ] = "",
    to: Annotated[
        str, typer.Option(help="HOST:PORT to send views to. Without it, the leading controller.")
    ] = "",
    directory: Annotated[Path, typer.Option("--dir", help="Folder of checkpoint and lake.")] = Path(
        "equipoise-pipeline"
    ),
    master: Master = "local[*]",
    driver_host: DriverHost = "",
    sums: Sums = SumsAt.AUTO,
    memory: Annotated[int, typer.Option(min=256, help="JVM heap of the driver, in MiB.")] = 640,
    user: Annotated[str, typer.Option(help="User to log in as on the hubs; needs `observe`.")] = "",
    secret_file: Annotated[Path | None, typer.Option(help="File with the secret of --user.")] = None,
    tls_ca: Annotated[str, typer.Option("--tls-ca", help="CA of the hubs' certificates (PEM).")] = "",
    token_file: Annotated[Path | None, typer.Option(help="File with the controller's token.")] = None,
    lake: Annotated[bool, typer.Option(help="Keep history in the lake.")] = True,
    retention_hours: Annotated[int, typer.Option(min=1, help="Hours of history to keep.")] = 168,
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run the Spark pipeline: telemetry of hubs in, a view each second out, history as Parquet. Needs Java 17 or
    newer.

    After a restart it continues from its checkpoint: each record that hubs still have is read exactly once.
    """
    set_up_logs(log_format, verbose=verbose)
    # The bridge to the JVM logs every lost connection with a traceback; the pipeline logs the relevant ones.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with exit_on_failure():
        if bool(store) == bool(hubs):
            raise SettingsError("give either --store zk://host:port/root or --hubs name=host:port,…")
        if hubs and not to:
            raise SettingsError("--hubs needs --to HOST:PORT: without a store the controller is unknown")
        _require_spark()
        # Imported here, so that only this command loads Spark.
        from equipoise.pipeline.process import run
        from equipoise.pipeline.settings import (
            KeepingSettings,
            PipelineSettings,
            SessionSettings,
            SourceSettings,
        )
        from equipoise.pipeline.spark.session import address_towards

        source = SourceSettings(
            hubs=store or hubs, region=region, user=user, secret=_word(secret_file), tls_ca=tls_ca
        )
        settings = PipelineSettings(
            source=source,
            directory=directory.absolute(),
            lake_enabled=lake,
            sums=sums,
            keeping=KeepingSettings(retention_h=retention_hours),
        )
        host = driver_host or address_towards(master)
        spark = SessionSettings(master=master, driver_memory_mib=memory, driver_host=host)
        run(settings, spark, to=to, token=_word(token_file))


def _require_spark() -> None:
    """Raise an error with the missing part, before Spark is imported."""
    from equipoise.pipeline.spark.spark_home import require_spark

    require_spark()


def _word(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text().strip()
    except OSError as problem:
        raise SettingsError(f"cannot read {path}: {os.strerror(problem.errno or 0)}") from problem
