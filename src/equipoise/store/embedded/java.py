"""Find the Java and the jars that a ZooKeeper is made of, or say in one line what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from equipoise.errors import StoreUnavailableError

__all__ = ["JARS", "JAVA_VERSION_MIN", "find_jars", "find_java", "java_version", "locate_java"]

JAVA_VERSION_MIN = 17
# What ZooKeeper needs of PySpark's jars: itself, its logging, its metrics and its compression.
JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
)


def locate_java() -> str | None:
    """The path of the Java that would be used, whatever its version; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    return java or shutil.which("java")


def java_version(java: str) -> int | None:
    """Its major version, as it says; None if it says nothing of the kind."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return None if found is None else int(found[1])


def find_java() -> str:
    """The path of a Java that is new enough. Raises StoreUnavailableError."""
    java = locate_java()
    if java is None:
        raise StoreUnavailableError(
            f"there is no Java: install version {JAVA_VERSION_MIN} or newer, or set JAVA_HOME"
        )
    version = java_version(java)
    if version is None or version < JAVA_VERSION_MIN:
        raise StoreUnavailableError(
            f"{java} is Java {version or 'unknown'}: version {JAVA_VERSION_MIN} or newer is needed"
        )
    return java


def find_jars() -> list[Path]:
    """PySpark's jars that make a ZooKeeper. Raises StoreUnavailableError."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise StoreUnavailableError(
            "PySpark, which brings ZooKeeper, is not installed: pip install 'equipoise[pipeline]'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    jars: list[Path] = []
    for name in JARS:
        found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not found:
            raise StoreUnavailableError(f"PySpark's {folder} has no {name} jar: install PySpark 4.3")
        jars.append(found[-1])
    return jars
