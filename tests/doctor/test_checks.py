"""Findings from plain values."""

from __future__ import annotations

import pytest

from equipoise.doctor import checks
from equipoise.doctor.checks import GIB, CheckResult, CheckStatus
from equipoise.hub.shell.descriptors import RESERVED
from equipoise.store.embedded.zookeeper_process import JAVA_VERSION_MIN

OK, WARNING, FAILURE = CheckStatus.OK, CheckStatus.WARNING, CheckStatus.FAILURE


@pytest.mark.parametrize(
    ("finding", "status", "words"),
    [
        (checks.check_python((3, 11)), OK, "3.11"),
        (checks.check_python((3, 9)), FAILURE, "3.11 or newer"),
        (checks.check_java("/usr/bin/java", 21), OK, "21 at /usr/bin/java"),
        (checks.check_java("/usr/bin/java", 11), FAILURE, "Java 17 or newer"),
        (checks.check_java("/usr/bin/java", None), FAILURE, "does not print its version"),
        (checks.check_java(None, None), FAILURE, "a single hub needs none"),
        (checks.check_spark("4.3.0"), OK, "PySpark 4.3.0"),
        (checks.check_spark("4.4.1.dev0"), OK, "4.4.1"),
        (checks.check_spark("3.5.1"), FAILURE, "equipoise[pipeline]"),
        (checks.check_spark("5.0.0"), FAILURE, "a later 4.x"),
        (checks.check_spark(None), FAILURE, "pip install"),
        (checks.check_port(6399, "a hub", is_free=True), OK, "free, for a hub"),
        (checks.check_port(6399, "a hub", is_free=False), WARNING, "sport = :6399"),
        (checks.check_open_files(None, 10_000), OK, "no limit"),
        (checks.check_open_files(10_128, 10_000), OK, "10,128"),
        (checks.check_open_files(1_024, 10_000), WARNING, "LimitNOFILE=10128"),
        (checks.check_open_files(10, 10_000), WARNING, "takes 0 connections"),
        (checks.check_memory(4 * GIB), OK, "4.0 GiB"),
        (checks.check_memory(GIB), WARNING, "--no-pipeline"),
        (checks.check_memory(GIB // 10), FAILURE, "256 MiB"),
        (checks.check_memory(None), WARNING, "2 GiB"),
        (checks.check_processors(2), OK, "2 cores"),
        (checks.check_processors(1), WARNING, "elsewhere"),
        (checks.check_directory("/x", is_writable=True, free_bytes=2 * GIB), OK, "2.0 GiB free in /x"),
        (checks.check_directory("/x", is_writable=True, free_bytes=GIB // 2), WARNING, "--no-lake"),
        (checks.check_directory("/x", is_writable=False, free_bytes=2 * GIB), FAILURE, "--dir"),
        (checks.check_store("zk://a", answer_s=0.002), OK, "in 2 ms"),
        (checks.check_store("zk://a", answer_s=0.9), WARNING, "declared dead"),
        (checks.check_store("zk://a", answer_s=None, problem="unreachable"), FAILURE, "`equipoise store`"),
        (
            checks.check_limits("default", ["x"], []),
            OK,
            "1 pattern has a rate limit, and every live hub enforces it",
        ),
        (checks.check_limits("default", ["x", "y"], ["b", "a"]), WARNING, "a, b cannot enforce"),
        (checks.check_clock(0.1, 0.0), OK, "behind the store's"),
        (checks.check_clock(-2.0, 0.1), WARNING, "timedatectl"),
        (checks.check_clock(60.0, 0.1), FAILURE, "views from here are rejected"),
    ],
)
def test_a_finding_has_a_fact_and_a_remedy(finding: CheckResult, status: CheckStatus, words: str) -> None:
    assert finding.status is status
    assert words in f"{finding.fact} {finding.next_step}"
    assert bool(finding.next_step) == (status is not OK)


def test_a_slow_reply_does_not_count_as_a_clock_error() -> None:
    assert checks.check_clock(3.0, 2.9).status is OK


def test_the_doctor_and_the_components_agree_on_the_requirements() -> None:
    assert checks.JAVA_VERSION_MIN == JAVA_VERSION_MIN
    assert checks.DESCRIPTORS_RESERVED == RESERVED
