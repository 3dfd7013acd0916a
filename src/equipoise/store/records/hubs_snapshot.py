"""Read all hubs in one round trip, based on the last known nodes.

To read the hubs takes three steps, each by the results of the one before: the list of hubs, the nodes of each, and the
content of the node that counts. Hubs seldom change, so all three are read at once, for the hubs and nodes of last time.

Always true: the result is the same as that of separate steps. Results come in the order of reads, so a node is read
after the list that selects it; where a guess was wrong, there is no result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from equipoise.errors import DamagedError
from equipoise.store.contract import Answer, Node, Read, WatchKind
from equipoise.store.tree import ALIVE, ALIVE_NEXT, Tree, unescape

__all__ = [
    "EdgeReport",
    "HubAlive",
    "HubFacts",
    "HubLook",
    "HubSeen",
    "counting_node",
    "decode_alive",
    "seen_in",
]

T = TypeVar("T")


class HubFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a hub at its start. Unknown fields of a newer program are ignored."""

    hub: str
    # The address for clients and other hubs: host:port.
    address: str
    # The run of this hub: increases with each start.
    incarnation: int
    site: str = ""
    rack: str = ""
    # The verbs that it knows on links between hubs; default: the first ones.
    verbs: int = 1
    # The user that it logs in as at other hubs; empty: none.
    login: str = ""
    # Its TLS address: host:port; empty: none.
    tls_address: str = ""
    # Identity of the process, so that its successor on the same machine can detect its end; empty: unknown.
    process: str = ""
    # Whether it enforces rate envelopes.
    keeps_limits: bool = False
    # Whether it owns logs on bookies; False: a hub of a release that does not.
    keeps_logs: bool = False
    # Whether it knows topics in mode `content`; other hubs cannot read a plan with such a topic.
    carries_content: bool = False


class EdgeReport(msgspec.Struct, frozen=True):
    """The state of a hub as an edge of content topics, reported periodically."""

    # One of `telemetry.EDGE_STATES`.
    state: str
    input_ratio: float
    output_ratio: float
    # From receiving a message to having written its outputs.
    delay_s: float
    subscriptions: int


class HubAlive(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `alive`."""

    facts: HubFacts
    # Measured by the hub, 1.0 is full; for weighted choices without a plan.
    load_ratio: float = 0.0
    # The creation id of the first `alive` of this run, from the second on; 0 in the first.
    since_id: int = 0
    # The latest plan that this run had applied when it registered: used if the order of creations is lost.
    served_version: int = 0
    # The version of the hub's specs; 0: unknown.
    specs_version: int = 0
    # Hubs that it could not reach for long, with their incarnations.
    unreachable: tuple[tuple[str, int], ...] = ()
    # None: it is not an edge of a content topic.
    edge: EdgeReport | None = None


class HubSeen(msgspec.Struct, frozen=True):
    facts: HubFacts
    # None if the hub is dead.
    alive: HubAlive | None
    # The creation id of its node; 0 if it is dead.
    created_id: int = 0

    @property
    def since_id(self) -> int:
        """The creation id of this run's first node in the store; 0 if the hub is dead."""
        return self.created_id if self.alive is None else self.alive.since_id or self.created_id

    def serves_under(self, version: int, plan_id: int) -> bool:
        """Whether its run began before the plan was committed, which has this creation id; or its own data says that it
        had applied the plan before the store was emptied."""
        if self.alive is not None and self.alive.served_version >= version > 0:
            return True
        return self.since_id < plan_id


_facts = msgspec.msgpack.Decoder(HubFacts)
_alive = msgspec.msgpack.Decoder(HubAlive)


class HubLook:
    """The reads of one round trip, and their conclusion."""

    def __init__(self, tree: Tree, guesses: Mapping[str, str]) -> None:
        """`guesses`: the expected hubs, and which node of each counts, as `counting_node` names it."""
        self._guesses = dict(guesses)
        self.reads: list[Read] = [Read(tree.hubs, WatchKind.CHILDREN)]
        for hub, counting in self._guesses.items():
            path = tree.hub(hub)
            self.reads += Read(path, WatchKind.CHILDREN), Read(f"{path}/{counting}" if counting else path)

    def conclude(self, answers: Sequence[Answer]) -> tuple[dict[str, HubSeen | None], list[str]]:
        """The known hubs, and the hubs that have to be read separately. Raises DamagedError.

        None: a hub that was never announced.
        """
        listed, of_hubs = answers[0], iter(answers[1:])
        found: dict[str, HubSeen | None] = {}
        for (hub, guess), names, node in zip(self._guesses.items(), of_hubs, of_hubs, strict=True):
            if names is None:
                found[hub] = None
            elif isinstance(names, tuple) and isinstance(node, Node) and counting_node(names) == guess:
                found[hub] = seen_in(node, is_alive=bool(guess))
        present = [unescape(name).decode() for name in listed] if isinstance(listed, tuple) else []
        return (
            {hub: found[hub] for hub in present if hub in found},
            [hub for hub in present if hub not in found],
        )


def counting_node(names: Sequence[str]) -> str:
    """The name of the child that makes a hub alive; "" without one, when only its facts exist."""
    return next((name for name in (ALIVE, ALIVE_NEXT) if name in names), "")


def seen_in(node: Node, *, is_alive: bool) -> HubSeen | None:
    """A hub by its node; None if it was never announced. Raises DamagedError."""
    if is_alive:
        alive = decode_alive(node)
        return HubSeen(alive.facts, alive, node.created_id)
    # Without data: created, but not yet announced for the first time.
    return HubSeen(_decode(node, _facts), None) if node.data else None


def decode_alive(node: Node) -> HubAlive:
    """Raises DamagedError."""
    return _decode(node, _alive)


def _decode(node: Node, decoder: msgspec.msgpack.Decoder[T]) -> T:
    try:
        return decoder.decode(node.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise DamagedError(node.path, str(problem)) from problem
