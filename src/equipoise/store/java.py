"""Find the Java and the jars that a ZooKeeper is made of, or say in one line what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from equipoise.errors import StoreUnavailableError

__all__ = ["JARS", "JAVA_VERSION_MIN", "find_jars", "find_java"]

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


def find_java() -> str:
    """The path of a Java that is new enough. Raises StoreUnavailableError."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    java = java or shutil.which("java")
    if java is None:
        raise StoreUnavailableError(
            f"there is no Java: install version {JAVA_VERSION_MIN} or newer, or set JAVA_HOME"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < JAVA_VERSION_MIN:
        version = found[1] if found else "unknown"
        raise StoreUnavailableError(
            f"{java} is Java {version}: version {JAVA_VERSION_MIN} or newer is needed"
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
