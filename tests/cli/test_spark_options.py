"""`--master` reaches what runs on Spark, and executors are given an address that they can reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli import up
from equipoise.cli.main import app
from equipoise.errors import PipelineError
from equipoise.local import Layout, SystemSettings
from equipoise.local.children import Addresses, pipeline
from equipoise.pipeline.spark.session import address_towards

RUNNER = CliRunner()


@pytest.mark.parametrize(
    ("words", "master"), [([], "local[*]"), (["--master", "spark://a:7077"], "spark://a:7077")]
)
def test_the_pipeline_of_up_runs_on_the_given_master(
    words: list[str], master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[SystemSettings] = []

    async def note(layout: Layout, settings: SystemSettings) -> None:
        seen.append(settings)

    monkeypatch.setattr(up, "serve", note)
    done = RUNNER.invoke(app, ["up", "--dir", str(tmp_path), *words])
    assert done.exit_code == 0, done.output
    (settings,) = seen
    addresses = Addresses("zk://127.0.0.1:1/x", "default", None)
    child = pipeline(Layout(tmp_path), addresses, is_fed=lambda: True, extra=settings.extra["pipeline"])
    at = list(child.command).index("--master")
    assert child.command[at + 1] == master


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077"])
def test_a_master_on_this_machine_is_reached_over_loopback(master: str) -> None:
    assert address_towards(master) == "127.0.0.1"


def test_a_master_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(PipelineError, match=r"no route to the Spark master spark://256\."):
        address_towards("spark://256.256.256.256:7077")
