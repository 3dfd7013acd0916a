"""The package's front door."""

from __future__ import annotations

import subprocess
import sys

import equipoise
import equipoise.client
from support.processes import ROOT


def test_every_name_the_package_offers_is_there() -> None:
    assert dir(equipoise) == sorted(equipoise.__all__)
    for name in equipoise.__all__:
        assert getattr(equipoise, name) is not None
    assert equipoise.connect is equipoise.client.connect
    assert not hasattr(equipoise, "nonsense")


def test_importing_the_package_needs_nothing_installed() -> None:
    code = "import equipoise, sys; print({'hiredis', 'msgspec', 'asyncio'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stdout == "set()\n"
