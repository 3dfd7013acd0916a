"""A result as JSON, on the terminal, and in Markdown."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from equipoise.lab.bench.cases import FanoutCase, IdleCase, PacedCase
from equipoise.lab.bench.report import MARKER, markdown, number, splice, summary, terminal
from equipoise.lab.bench.result import BenchResult, Failure, Metric, Row, decode, encode
from equipoise.profile.environment import MachineFacts

HUNDRED = FanoutCase(100, 100, 50, 1, 1000)
PACED = PacedCase(20, 100, 1000, 2000)

RESULT = BenchResult(
    benchmark="fanout",
    taken_at="2030-01-02T03:04:05+00:00",
    commit="0123456789ab",
    machine=MachineFacts("Some Processor", 2, 24 << 30, "Linux 6.1"),
    versions={"python": "3.11.7", "redis": "7.0.15"},
    rounds=3,
    window=8,
    is_quick=False,
    servers=["hub", "redis", "nats"],
    skipped={},
    rows=[
        Row(HUNDRED, Metric.CPU, {"hub": [0.1, 0.1, 0.2], "redis": [0.25, 0.25, 0.25], "nats": [0.5] * 3}),
        Row(HUNDRED, Metric.RATE, {"hub": [9e6, 8e6, 7e6], "redis": [4e6] * 3}),
        Row(PACED, Metric.LATENCY_P99, {"hub": [180.0], "redis": [100.0], "nats": [200.0]}),
        Row(PACED, Metric.LEFT_OUT, {"hub": [0.02], "redis": [0.0], "nats": [0.5]}),
        Row(IdleCase(5000, True), Metric.MEMORY_SETTLED, {"hub": [2485.0], "redis": [2046.0]}),
    ],
    failures=[Failure("fan-out 100, 100 B, pipelined", "nats", "cut: 5 of 10 bytes delivered")],
)


def test_a_result_survives_being_kept_as_json() -> None:
    assert decode(encode(RESULT)) == RESULT


def test_something_else_is_not_read_as_a_result() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"benchmark": "fanout"}')


def test_a_markdown_row_shows_medians_ratios_goal_and_verdict() -> None:
    assert (
        "| fan-out 100, 100 B, pipelined | 0.100 | 0.250 | 0.500 | 0.40 (0.40–0.80) | 0.20 | ≤ 0.5 | yes |"
    ) in markdown(RESULT).splitlines()


def test_a_missed_goal_says_no() -> None:
    row = next(line for line in markdown(RESULT).splitlines() if ": p99" in line)
    assert row.endswith("| 1.80 | 0.90 | ≤ 1.5 | no |")


def test_what_was_left_out_is_shown_without_a_ratio() -> None:
    row = next(line for line in markdown(RESULT).splitlines() if "share left out" in line)
    assert row.endswith("| 0.020 | 0.000 | 0.500 |  |  |  |  |")


def test_a_server_without_samples_is_shown_as_failed_and_its_reason_is_given() -> None:
    page = markdown(RESULT)
    row = next(line for line in page.splitlines() if "settled" in line)
    assert "| failed |" in row
    assert "- nats failed at fan-out 100, 100 B, pipelined: cut: 5 of 10 bytes delivered" in page


def test_the_page_says_when_where_and_with_what_it_was_taken() -> None:
    page = markdown(RESULT)
    for fact in (
        "2030-01-02",
        "0123456789ab",
        "2 cores of Some Processor",
        "24 GiB",
        "redis 7.0.15",
        "3 rounds",
    ):
        assert fact in page


def test_the_terminal_shows_the_same_cells_as_the_page() -> None:
    sink = io.StringIO()
    Console(file=sink, width=160).print(terminal(RESULT))
    shown = sink.getvalue()
    for cell in ("0.40 (0.40–0.80)", "8,000,000", "≤ 0.5", "1 of 3 goals met."):
        assert cell in shown
        assert cell in markdown(RESULT)


def test_without_redis_no_goal_can_be_judged() -> None:
    alone = msgspec.structs.replace(RESULT, servers=["hub"], rows=[Row(HUNDRED, Metric.CPU, {"hub": [0.1]})])
    assert "No goal could be judged" in summary(alone)


def test_numbers_keep_three_digits_at_every_size() -> None:
    shown = [number(value) for value in (0.1234, 1.234, 12.34, 123.4, 1234567.0, None)]
    assert shown == ["0.123", "1.23", "12.3", "123", "1,234,567", "failed"]


def test_rendering_into_a_page_keeps_the_prose_and_replaces_the_tables() -> None:
    page = splice("# Title\n\nA reading.\n", "old tables\n")
    assert page == f"# Title\n\nA reading.\n\n{MARKER}\n\nold tables\n"
    assert splice(page, "new tables\n") == page.replace("old", "new")


def test_rendering_into_an_empty_page_leaves_the_marker_for_the_next_time() -> None:
    assert splice("", "tables\n") == f"{MARKER}\n\ntables\n"


@pytest.mark.parametrize(("busy", "is_noted"), [(0.95, False), (0.4, True)])
def test_a_machine_that_was_busy_elsewhere_is_noted(busy: float, is_noted: bool) -> None:
    result = msgspec.structs.replace(RESULT, rows=[Row(HUNDRED, Metric.BUSY, {"hub": [busy] * 3})])
    assert ("busy elsewhere" in markdown(result)) is is_noted


def test_a_hub_that_waits_for_single_publishes_is_not_taken_for_a_busy_machine() -> None:
    singly = FanoutCase(1, 100, 1, 1, 1000)
    result = msgspec.structs.replace(RESULT, rows=[Row(singly, Metric.BUSY, {"hub": [0.4]})])
    assert "busy elsewhere" not in markdown(result)
