"""Raise the open-file limit of the process to the hub's connection limit.

The usual limit of 1,024 is a tenth of what a hub allows. Beyond it the kernel refuses connections without a word, and
the loop complains in the log once a second.
"""

from __future__ import annotations

import resource

# What is open beside connections: listeners, the loop's own, a users file, libraries. Some 30, generously.
RESERVED = 128


def ensure_descriptors(connections_max: int) -> int:
    """Raise the limit of open files as far as is needed and allowed; how many connections fit now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + RESERVED
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft == resource.RLIM_INFINITY:
        return connections_max
    return max(0, min(connections_max, soft - RESERVED))
