"""What a path and the data of a node may be, the same in every store."""

from __future__ import annotations

from equipoise.errors import LimitError, MisuseError

__all__ = ["NODE_BYTES_MAX", "ancestors", "check_data", "check_path", "parent_of"]

# ZooKeeper refuses packets of 1 MiB (jute.maxbuffer); what is left is for the path and the header.
NODE_BYTES_MAX = 1_000_000
PATH_CHARS_MAX = 10_000


def check_path(path: str) -> None:
    """Raise MisuseError unless ZooKeeper would take it too."""
    if path == "/":
        return
    if len(path) > PATH_CHARS_MAX:
        raise MisuseError(f"a path of {len(path)} characters: use at most {PATH_CHARS_MAX}")
    if not path.startswith("/") or not all(part not in ("", ".", "..") for part in path[1:].split("/")):
        raise MisuseError(f"{path!r} is no path: it reads /a/b, with no empty, '.' or '..' part")
    if not path.isprintable():
        raise MisuseError(f"{path!r} is no path: it has characters that cannot be printed")


def check_data(path: str, data: bytes) -> None:
    if len(data) > NODE_BYTES_MAX:
        raise LimitError(f"{len(data)} bytes for the node {path}: a node holds at most {NODE_BYTES_MAX}")


def parent_of(path: str) -> str:
    """The parent's path; the root is its own."""
    return path.rpartition("/")[0] or "/"


def ancestors(path: str) -> list[str]:
    """The node and all above it but the root, from the top."""
    parts = path.strip("/").split("/") if path != "/" else []
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
