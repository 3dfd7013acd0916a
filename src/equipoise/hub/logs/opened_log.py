"""The contract of what opening a log has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.ledger.log import OpenLedger
    from equipoise.log.topic_log import TopicLog

__all__ = ["OpenedLog"]


class OpenedLog(Protocol):
    """The state of the log, and the ledger that its owner appends to."""

    @property
    def log(self) -> TopicLog: ...
    @property
    def ledger(self) -> OpenLedger: ...
    @property
    def epoch(self) -> int: ...
    @property
    def sent(self) -> int:
        """The last entry that former owners have sent to subscribers; -1: unknown."""
        ...
