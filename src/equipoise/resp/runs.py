"""Runs of messages of one topic: sequences of payloads, compiled where available.

A run is a tuple, a list, or a `Run` (`_runs.c`), which is kept as it is spelled between hubs. Code that passes a run on
asks `replies` for its size and spelling, and pays nothing for each message of a `Run`; all other code sees a sequence.

With EQUIPOISE_PURE=1 in the environment, or where it has not been built, the compiled part is not used: then `Run` is a
type that no run has, and the readers are None.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

__all__ = ["Run", "Verbs", "read_publishes", "read_requests", "spell_compiled"]

# Topics, payloads, and the bytes that were read of the data, whose words may have so many; None: no PUBLISH.
PublishReader = Callable[[bytes, int], "tuple[tuple[bytes, ...], Sequence[bytes], int] | None"]
# By verb, what makes something of the other words, and the kinds of those: see `_runs.c`.
Verbs = dict[bytes, tuple[Callable[..., Any], bytes]]
# Requests, as words or as what is made of them, and the bytes that were read; given the most words and bytes of a word.
RequestsReader = Callable[[bytes, Verbs, int, int], tuple[list[list[bytes] | Any], int]]

read_publishes: PublishReader | None = None
read_requests: RequestsReader | None = None
spell_compiled: Callable[..., bytes] | None = None

if TYPE_CHECKING:
    from equipoise.resp._runs import Run
else:

    class Run:
        """Stands for the compiled type."""

    if os.environ.get("EQUIPOISE_PURE", "0") in ("", "0"):
        try:
            # What was added last comes first: a part that was built before that is not used.
            from equipoise.resp._runs import spell_values as spell_compiled  # isort: skip
            from equipoise.resp._runs import publishes as read_publishes
            from equipoise.resp._runs import requests as read_requests
            from equipoise.resp._runs import Run  # isort: skip
        except ImportError:
            # Not built: no compiler, or another system.
            pass
        else:
            Sequence.register(Run)
