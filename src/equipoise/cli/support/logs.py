"""Logging of long-running commands: text lines, or one JSON object per line.

The format is an option and an environment variable, so that processes started by `equipoise up` log in the same
format.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

__all__ = ["JsonFormatter", "LogForm", "LogFormat", "Verbose", "set_up_logs"]


class LogForm(StrEnum):
    TEXT = "text"
    JSON = "json"


LogFormat = Annotated[
    LogForm,
    typer.Option(
        "--log-format",
        envvar="EQUIPOISE_LOG_FORMAT",
        help="json: one object per line, with time, level, logger and message.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log debug messages.")]

_TEXT = "%(asctime)s %(levelname)s %(message)s"
# Fields of every record; all others are extra fields of the caller.
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """One object per record, always on one line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _USUAL | fields.keys()}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def set_up_logs(form: LogForm, *, verbose: bool, level: int = logging.INFO) -> None:
    """Log to standard error from now on; `level` applies unless `verbose`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form is LogForm.JSON else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.DEBUG if verbose else level, handlers=[handler])
