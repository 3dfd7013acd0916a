"""Errors of commands on a log."""

from __future__ import annotations

from equipoise.errors import MisuseError

__all__ = ["NOT_AN_INTEGER", "NO_SUCH_KEY", "SYNTAX", "LogCommandError"]

SYNTAX = "ERR syntax error"
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
NO_SUCH_KEY = "ERR no such key"


class LogCommandError(MisuseError):
    """A command that cannot be carried out. Its text is the reply, with Redis's code and words."""

    @property
    def text(self) -> str:
        return str(self)
