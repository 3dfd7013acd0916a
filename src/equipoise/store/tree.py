"""The paths of the store.

The layout is Hedwig's: a region, its hubs with an ephemeral `alive` each, its durable topics with their owner each; the
specs, the users and the plan are additions. `docs/reference/znodes.md` is generated from `NODES`.

Always true: every topic name, pattern and hub name has a path of its own, for any bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

from xxhash import xxh32_intdigest

from equipoise.errors import SettingsError

__all__ = [
    "ALIVE",
    "ALIVE_NEXT",
    "NODES",
    "TOPIC_FOLDERS",
    "Tree",
    "escape",
    "number_of",
    "render_reference",
    "unescape",
    "version_name",
]

# Below a hub: it is alive; and it is alive while its node moves from one session to the next.
ALIVE = "alive"
ALIVE_NEXT = "alive-next"
_REGION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
# Folders over which topics are distributed.
TOPIC_FOLDERS = 256
# Versions have this number of digits, so that names sort as numbers do.
_VERSION_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Tree:
    """The paths of one region. Regions in one ZooKeeper are separate."""

    region: str = "default"

    def __post_init__(self) -> None:
        if not _REGION.fullmatch(self.region):
            raise SettingsError(
                f"region {self.region!r}: use 1 to 64 letters, digits or . _ -, a letter or digit first"
            )

    @property
    def root(self) -> str:
        return f"/equipoise/{self.region}"

    @property
    def identity(self) -> str:
        return f"{self.root}/identity"

    @property
    def hubs(self) -> str:
        return f"{self.root}/hubs"

    def hub(self, name: str) -> str:
        return f"{self.hubs}/{escape(name.encode())}"

    def alive(self, name: str) -> str:
        return f"{self.hub(name)}/{ALIVE}"

    def alive_next(self, name: str) -> str:
        return f"{self.hub(name)}/{ALIVE_NEXT}"

    @property
    def topics(self) -> str:
        return f"{self.root}/topics"

    def topic(self, name: bytes) -> str:
        """In one of 256 folders, by hash: the names of 100,000 children of one node exceed a reply of ZooKeeper."""
        return f"{self.topic_folder(xxh32_intdigest(name) % TOPIC_FOLDERS)}/{escape(name)}"

    def topic_folder(self, number: int) -> str:
        return f"{self.topics}/{number:02x}"

    @property
    def specs(self) -> str:
        return f"{self.root}/specs"

    def spec(self, pattern: bytes) -> str:
        return f"{self.specs}/{escape(pattern)}"

    @property
    def seat_orders(self) -> str:
        return f"{self.root}/seat-orders"

    def seat_order(self, topic: bytes) -> str:
        return f"{self.seat_orders}/{escape(topic)}"

    @property
    def users(self) -> str:
        return f"{self.root}/users"

    @property
    def users_blobs(self) -> str:
        return f"{self.root}/users-blobs"

    @property
    def leader(self) -> str:
        return f"{self.root}/leader"

    @property
    def planner(self) -> str:
        return f"{self.root}/planner"

    @property
    def servers(self) -> str:
        return f"{self.root}/servers"

    @property
    def ledgers(self) -> str:
        """The root of BookKeeper's own layout."""
        return f"{self.root}/ledgers"

    @property
    def ledger_ids(self) -> str:
        return f"{self.root}/ledger-ids"

    def draining_bookie(self, name: str) -> str:
        return f"{self.root}/draining-bookies/{escape(name.encode())}"

    @property
    def plan(self) -> str:
        return f"{self.root}/plan"

    @property
    def head(self) -> str:
        return f"{self.plan}/head"

    @property
    def log(self) -> str:
        return f"{self.plan}/log"

    def change(self, version: int) -> str:
        return f"{self.log}/{version_name(version)}"

    @property
    def snapshots(self) -> str:
        return f"{self.plan}/snapshots"

    def snapshot(self, version: int) -> str:
        return f"{self.snapshots}/{version_name(version)}"

    @property
    def plan_blobs(self) -> str:
        return f"{self.plan}/blobs"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """A row of the reference."""

    path: str
    lasts: str
    written_by: str
    content: str


_FOREVER, _SESSION = "persistent", "ephemeral"
NODES = (
    NodeKind(
        "/identity",
        _FOREVER,
        "the first hub",
        "Identity of the region. Missing or different: the store was emptied, or has another region.",
    ),
    NodeKind(
        "/hubs/HUB", _FOREVER, "the hub", "Facts of the hub: address, incarnation, site, rack (msgpack)."
    ),
    NodeKind(
        "/hubs/HUB/alive",
        _SESSION,
        "the hub",
        "Its facts and current load (msgpack). Gone: the hub is dead.",
    ),
    NodeKind(
        "/hubs/HUB/alive-next",
        _SESSION,
        "the hub",
        "The same, while a hub with an expired session replaces its `alive` node.",
    ),
    NodeKind(
        "/topics/XX/TOPIC",
        _FOREVER,
        "the owner",
        "A topic with a log: the hub and incarnation that owns it, its epoch, its ledgers, the last entry that "
        "subscribers had been sent when it was claimed or released (msgpack). Every change is a "
        "compare-and-set. XX is the hash of the name, in two hexadecimal digits.",
    ),
    NodeKind(
        "/specs/PATTERN", _FOREVER, "an operator", "Spec of the topics that match the pattern (msgpack)."
    ),
    NodeKind(
        "/seat-orders/TOPIC",
        _FOREVER,
        "a fit",
        "The order, found from arrivals, in which publishers of a split topic are assigned to homes: its number, the "
        "key of the recording, pseudonyms (msgpack).",
    ),
    NodeKind(
        "/users",
        _FOREVER,
        "an operator",
        "Users and permissions: a reference to the text of a users file. Its version + 1 is the access version.",
    ),
    NodeKind("/users-blobs/BLOB/PART", _FOREVER, "an operator", "That text, compressed, in parts."),
    NodeKind(
        "/leader",
        _SESSION,
        "a controller",
        "The leading controller: name, site, addresses (msgpack). Absent: no controller leads.",
    ),
    NodeKind(
        "/planner",
        _FOREVER,
        "a controller",
        "State of the planner: drained and requested hubs, learnt profiles (msgpack).",
    ),
    NodeKind(
        "/servers",
        _FOREVER,
        "a controller",
        "The hubs that should run, for the process that starts and stops them (msgpack).",
    ),
    NodeKind(
        "/ledgers/LAYOUT, /ledgers/INSTANCEID",
        _FOREVER,
        "the first bookie",
        "BookKeeper's: the layout of the nodes below, and the identity of the cluster of bookies.",
    ),
    NodeKind(
        "/ledgers/available/BOOKIE",
        _SESSION,
        "the bookie",
        "BookKeeper's: a writable bookie; its address, site, rack, free space and directory (protobuf). "
        "Below `available/readonly`: a read-only bookie.",
    ),
    NodeKind(
        "/ledgers/cookies/BOOKIE",
        _FOREVER,
        "the bookie",
        "BookKeeper's: the bookie is part of the cluster, with this directory. Without it no bookie starts on data.",
    ),
    NodeKind(
        "/ledgers/000/…/LNNNN",
        _FOREVER,
        "the ledger's writer",
        "BookKeeper's: a ledger's quorums, ensembles, state and end (protobuf). Deleted: bookies drop the ledger.",
    ),
    NodeKind("/ledger-ids", _FOREVER, "a hub", "The highest id of a ledger so far, in digits."),
    NodeKind(
        "/draining-bookies/BOOKIE",
        _FOREVER,
        "an operator",
        "The bookie is draining: it accepts no new entries.",
    ),
    NodeKind(
        "/plan/head",
        _FOREVER,
        "a controller",
        "A hint: the latest version of the plan, set after the commit.",
    ),
    NodeKind(
        "/plan/log/VERSION",
        _FOREVER,
        "a controller",
        "A change of the plan with its reasons. Its creation is the commit.",
    ),
    NodeKind(
        "/plan/snapshots/VERSION",
        _FOREVER,
        "a controller",
        "A whole plan: where it is, its size and its checksum.",
    ),
    NodeKind(
        "/plan/blobs/BLOB/PART",
        _FOREVER,
        "a controller",
        "Snapshots, and changes too large for a node, in parts.",
    ),
)


def escape(name: bytes) -> str:
    """Any bytes as one part of a path: letters, digits and _ - ~ : @ stand for themselves, the rest as %XX.

    Dots do so only inside, as ZooKeeper rejects `.` and `..` as names, and the empty name is a bare %.
    """
    if not name:
        return "%"
    text = quote_from_bytes(name, safe=":@")
    return text.replace(".", "%2E") if text.strip(".") == "" else text


def unescape(part: str) -> bytes:
    """The reverse of `escape`."""
    return b"" if part == "%" else unquote_to_bytes(part)


def version_name(version: int) -> str:
    return f"{version:0{_VERSION_DIGITS}d}"


def number_of(name: str) -> int | None:
    """The version in the name of a node, before a dash if there is one; None for other names."""
    digits = name.partition("-")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def render_reference() -> str:
    """The page `docs/reference/znodes.md`."""
    rows = "\n".join(
        f"| `{kind.path}` | {kind.lasts} | {kind.written_by} | {kind.content} |" for kind in NODES
    )
    return f"""# Nodes of the store

Generated from `equipoise.store.tree`; do not edit.

All paths begin with `/equipoise/REGION` under the root given in the store's address. Names of hubs and topics and
patterns are escaped as in URLs: letters, digits and `_ - . ~ : @` stand for themselves, every other byte as `%XX`; the
empty name is `%`, and a name of dots only has its dots escaped.

| path | lasts | written by | content |
|---|---|---|---|
{rows}

`VERSION` has {_VERSION_DIGITS} digits. `BLOB` begins with the version it belongs to. A node holds at most 1 MB; what
may be larger is compressed and cut into parts of 900 kB.
"""
