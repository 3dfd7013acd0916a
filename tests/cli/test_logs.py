"""Logs for programs: one JSON object per line, whatever is logged."""

from __future__ import annotations

import json
import logging

from equipoise.cli.support.logs import JsonFormatter


def told(record: logging.LogRecord) -> dict[str, object]:
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, object] = json.loads(line)
    return found


def record(message: str, *words: object, **extra: object) -> logging.LogRecord:
    logger = logging.Logger("equipoise.hub")
    return logger.makeRecord("equipoise.hub", logging.WARNING, "f", 1, message, words, None, extra=extra)


def test_a_line_has_time_level_logger_and_message() -> None:
    found = told(record("hub %s\nis cut", "h1"))
    assert found["message"] == "hub h1\nis cut"
    assert (found["level"], found["logger"]) == ("warning", "equipoise.hub")
    assert str(found["time"]).endswith("Z") and "T" in str(found["time"])


def test_extra_facts_are_fields_and_replace_no_standard_field() -> None:
    found = told(record("moved", topic=b"t", hubs=["a"], level="mine"))
    assert found["hubs"] == ["a"] and found["topic"] == "b't'"
    assert found["level"] == "warning"


def test_an_exception_is_one_field() -> None:
    try:
        raise ValueError("why")
    except ValueError as problem:
        made = record("failed")
        made.exc_info = (ValueError, problem, problem.__traceback__)
    assert "ValueError: why" in str(told(made)["exception"])
