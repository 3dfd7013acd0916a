"""Read all hubs in one round trip, based on the last known nodes.

To see the hubs takes three questions, each about the answers to the one before: who there is, which nodes each of them
has, and what is in the node that counts. Hubs seldom change, so all three are asked at once, for the hubs there were
and the nodes that counted last time.

Always true: what is concluded is what asking step by step would have shown. The answers come in the order of the
questions, so a node is read after the list that says it counts; where a guess was wrong, nothing is concluded.
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
    """What a hub says of itself when it starts. A newer program's fields are passed over."""

    hub: str
    # Where clients and other hubs connect to: host:port.
    address: str
    # Which life of this name it is: greater for each later one.
    incarnation: int
    site: str = ""
    rack: str = ""
    # Which verbs it knows on the links between hubs; those that do not say know the first ones.
    verbs: int = 1
    # The user that it logs in as at other hubs; empty: none.
    login: str = ""
    # Where it speaks TLS: host:port; empty: nowhere.
    tls_address: str = ""
    # Identity of the process, so that its successor on the same machine can prove that it has ended; empty: unknown.
    process: str = ""
    # Whether it keeps rate envelopes.
    keeps_limits: bool = False
    # Whether it owns logs on bookies; False: a hub of a release that does not.
    keeps_logs: bool = False
    # Whether it knows topics in mode `content`; one that does not cannot read a plan with such a topic.
    carries_content: bool = False


class EdgeReport(msgspec.Struct, frozen=True):
    """What a hub says of itself as an edge of content topics, at times."""

    # A word of `telemetry.EDGE_STATES`.
    state: str
    input_ratio: float
    output_ratio: float
    # From taking a message to having written its outputs.
    delay_s: float
    subscriptions: int


class HubAlive(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `alive`."""

    facts: HubFacts
    # As the hub sees it, 1.0 for full; for weighted choices where no plan decides.
    load_ratio: float = 0.0
    # The creation id of the first `alive` of this life, from the second on; 0 in the first.
    since_id: int = 0
    # The latest plan that this life served under when it registered: counts where the order of creations is lost.
    served_version: int = 0
    # The version of the specs that the hub serves under; 0 if it knows of none.
    specs_version: int = 0
    # Hubs that it has not reached for long, with their incarnations.
    unreachable: tuple[tuple[str, int], ...] = ()
    # None: it is no edge of a content topic.
    edge: EdgeReport | None = None


class HubSeen(msgspec.Struct, frozen=True):
    facts: HubFacts
    # None if the hub is dead.
    alive: HubAlive | None
    # The creation id of its node; 0 if it is dead.
    created_id: int = 0

    @property
    def since_id(self) -> int:
        """When this life began, among all creations in the store; 0 if the hub is dead."""
        return self.created_id if self.alive is None else self.alive.since_id or self.created_id

    def serves_under(self, version: int, plan_id: int) -> bool:
        """Whether its life began before the plan was committed, which has this creation id; or it says that it
        served under the plan before the store was emptied."""
        if self.alive is not None and self.alive.served_version >= version > 0:
            return True
        return self.since_id < plan_id


_facts = msgspec.msgpack.Decoder(HubFacts)
_alive = msgspec.msgpack.Decoder(HubAlive)


class HubLook:
    """The questions of one look, and what their answers show."""

    def __init__(self, tree: Tree, guesses: Mapping[str, str]) -> None:
        """`guesses`: the hubs there may be, and which node of each counts, as `counting_node` names it."""
        self._guesses = dict(guesses)
        self.reads: list[Read] = [Read(tree.hubs, WatchKind.CHILDREN)]
        for hub, counting in self._guesses.items():
            path = tree.hub(hub)
            self.reads += Read(path, WatchKind.CHILDREN), Read(f"{path}/{counting}" if counting else path)

    def conclude(self, answers: Sequence[Answer]) -> tuple[dict[str, HubSeen | None], list[str]]:
        """What is known of hubs, and who else is to be looked at by itself. Raises DamagedError.

        None stands for a hub that was never announced.
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
    """Which of a hub's children says that it is alive; "" if none does, and its facts are all there is."""
    return next((name for name in (ALIVE, ALIVE_NEXT) if name in names), "")


def seen_in(node: Node, *, is_alive: bool) -> HubSeen | None:
    """A hub as its node tells; None if it was never announced. Raises DamagedError."""
    if is_alive:
        alive = decode_alive(node)
        return HubSeen(alive.facts, alive, node.created_id)
    # Without data: made, but not yet announced for the first time.
    return HubSeen(_decode(node, _facts), None) if node.data else None


def decode_alive(node: Node) -> HubAlive:
    """Raises DamagedError."""
    return _decode(node, _alive)


def _decode(node: Node, decoder: msgspec.msgpack.Decoder[T]) -> T:
    try:
        return decoder.decode(node.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise DamagedError(node.path, str(problem)) from problem
