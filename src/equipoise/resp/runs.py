"""Runs of messages of one topic: sequences of payloads, compiled where available.

A run is a tuple, a list, or a `Run` (`_runs.c`), which stays in the encoding of links between hubs. Code that forwards
a run gets its size and encoding from `replies`, and has no cost per message of a `Run`; other code sees a sequence.

With EQUIPOISE_PURE=1 in the environment, or where the compiled part is not built, it is not used: then `Run` is a
type without instances, and the readers are None.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

__all__ = ["Run", "Verbs", "read_publishes", "read_requests", "spell_compiled"]

# Topics, payloads, and the number of bytes parsed, given the data and the largest word; None: no PUBLISH.
PublishReader = Callable[[bytes, int], "tuple[tuple[bytes, ...], Sequence[bytes], int] | None"]
# By verb: the factory called with the other words, and the types of those words: see `_runs.c`.
Verbs = dict[bytes, tuple[Callable[..., Any], bytes]]
# Requests, as words or as a factory's result, and the number of bytes parsed; given the limits of words and of bytes.
RequestsReader = Callable[[bytes, Verbs, int, int], tuple[list[list[bytes] | Any], int]]

read_publishes: PublishReader | None = None
read_requests: RequestsReader | None = None
spell_compiled: Callable[..., bytes] | None = None

if TYPE_CHECKING:
    from equipoise.resp._runs import Run
else:

    class Run:
        """Stands in for the compiled type."""

    if os.environ.get("EQUIPOISE_PURE", "0") in ("", "0"):
        try:
            # The newest function is imported first: an older build of the compiled part is not used.
            from equipoise.resp._runs import spell_values as spell_compiled  # isort: skip
            from equipoise.resp._runs import publishes as read_publishes
            from equipoise.resp._runs import requests as read_requests
            from equipoise.resp._runs import Run  # isort: skip
        except ImportError:
            # Not built: no compiler, or another system.
            pass
        else:
            Sequence.register(Run)
