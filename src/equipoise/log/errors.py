"""Errors of commands on a log."""

from __future__ import annotations

from equipoise.errors import MisuseError

__all__ = ["NOT_AN_INTEGER", "NO_SUCH_KEY", "SYNTAX", "LogCommandError"]

SYNTAX = "ERR syntax error"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
NO_SUCH_KEY = "ERR no such key"


class LogCommandError(MisuseError):
    """A command failed. The text is the reply, with the code and wording of Redis."""

    @property
    def text(self) -> str:
        return str(self)
