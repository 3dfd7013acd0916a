"""ARCHITECTURE.md is true: each feature is in the file that the table names, and named paths exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.sources import tree_of

REPOSITORY = Path(__file__).resolve().parents[1]
ROOT = REPOSITORY / "src" / "equipoise"
PAGE = (REPOSITORY / "ARCHITECTURE.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| `([\w/]+\.py)` \| `(\w+)` \|$", PAGE, re.MULTILINE)


def test_the_table_has_the_features_that_a_newcomer_looks_for() -> None:
    text = " ".join(feature for feature, _, _ in ROWS).lower()
    for word in (
        "slow-consumer",
        "hash ring",
        "redirects",
        "liveness",
        "subscription barrier",
        "publisher order",
        "hysteresis",
        "telemetry validation",
        "compaction",
        "operations",
        "reauthorisation",
        "autoscaling",
        "handover",
        "replication",
        "rate limits on connections",
        "coordinates",
        "telemetry ring",
        "view schema",
        "leader election",
        "checkers",
    ):
        assert word in text


@pytest.mark.parametrize(("feature", "file", "symbol"), ROWS, ids=[row[0] for row in ROWS])
def test_a_feature_is_where_the_table_says(feature: str, file: str, symbol: str) -> None:
    body = tree_of(ROOT / file).body
    names = {
        node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert symbol in names, f"{feature}: {file} defines no {symbol}"


def test_every_path_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGE))
    missing = {path for path in named if not (ROOT / path).exists() and not (REPOSITORY / path).exists()}
    assert missing == set()
