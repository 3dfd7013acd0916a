"""Raise the open-file limit of the process to the hub's connection limit.

The usual limit of 1,024 is a tenth of the hub's default. Above it, connections are not accepted, and the loop logs an
error every second.
"""

from __future__ import annotations

import resource

# Descriptors other than connections: listeners, the loop's own, a users file, libraries. About 30, plus a margin.
RESERVED = 128


def ensure_descriptors(connections_max: int) -> int:
    """Raise the limit of open files as far as necessary and permitted; return the number of connections that fit."""
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
