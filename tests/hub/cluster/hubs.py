"""Several hubs without sockets: the test delivers frames from hub to hub, and can hold them back on any link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from equipoise.access import Users
from equipoise.hub.cluster import Cluster, LiveHub, Routing
from equipoise.hub.cluster.link.capabilities import VERBS, Announcement, spell_greeting
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.hub.commands.dispatch import Dispatch
from equipoise.hub.core import HubCore
from equipoise.hub.settings import HubSettings, Limits
from equipoise.model import Entry, Member, Mode, Plan
from hub.world import FakeClient, FakeShell, World

PORT = 6399
# From, to; and for a control link the word.
Link = tuple[str, str] | tuple[str, str, str]
# Who hubs are to each other, where there are users.
HUB_USER = "hub"


class Node(World):
    """One hub among others."""

    def __init__(
        self, hubs: Hubs, name: str, users: Users | None, limits: Limits, cluster: ClusterSettings
    ) -> None:
        self.shell = FakeShell(1 << 30)
        settings = HubSettings(name=name, port=0, limits=limits, cluster=cluster)
        self.core = HubCore(settings, users or Users.open(), self.shell, Dispatch)
        self.cluster = self.core.cluster = Cluster(self.core, Wires(hubs, name))


class Wires:
    """What a cluster needs of the world: links that the test moves."""

    def __init__(self, hubs: Hubs, name: str) -> None:
        self._hubs = hubs
        self._name = name

    def dial(self, link: OutLink, facts: LiveHub) -> None:
        self._hubs.links[self._key(link)] = link

    def redial(self, link: OutLink) -> None:
        self._hubs.connections.pop(self._key(link), None)

    def hang_up(self, link: OutLink) -> None:
        self._hubs.links.pop(self._key(link), None)
        self._hubs.connections.pop(self._key(link), None)

    def _key(self, link: OutLink) -> Link:
        return (self._name, link.hub, "control") if link.is_control else (self._name, link.hub)

    def declared_dead(self) -> None:
        raise AssertionError("no hub is declared dead here")


class Hubs:
    """All of them. `settle` lets everything happen that can."""

    def __init__(
        self,
        *names: str,
        users: Users | None = None,
        legacy: Iterable[str] = (),
        limits: Mapping[str, Limits] | None = None,
        cluster: ClusterSettings | None = None,
    ) -> None:
        self.links: dict[Link, OutLink] = {}
        # By link, the other end and the frames in flight.
        self.connections: dict[Link, tuple[FakeClient, list[bytes]]] = {}
        self.held: set[Link] = set()
        # Hubs that greet like the release before capabilities had names.
        self._legacy = frozenset(legacy)
        self.nodes = {
            name: Node(self, name, users, (limits or {}).get(name, Limits()), cluster or ClusterSettings())
            for name in names
        }
        self.alive = set(names)
        self._plan = Plan(members=tuple(Member(name) for name in sorted(names)))
        self.commit()

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def replicate(
        self,
        topic: str,
        mode: Mode,
        *homes: str,
        shares: tuple[int, ...] = (),
        depths: tuple[int, ...] = (),
        seats: tuple[int, ...] = (),
        parents: tuple[int, ...] = (),
        only: tuple[str, ...] = (),
    ) -> None:
        """Commit a plan with this entry, and let it be carried out as far as links allow; by some hubs only."""
        entry = Entry(topic.encode(), homes, mode, shares=shares, depths=depths, seats=seats, parents=parents)
        self._plan = replace(self._plan, entries={**self._plan.entries, entry.topic: entry})
        self.commit(only=only)

    def move(self, topics: Iterable[str], home: str) -> None:
        """Commit one plan that gives all of these topics to a hub."""
        entries = {topic.encode(): Entry(topic.encode(), (home,)) for topic in topics}
        self._plan = replace(self._plan, entries={**self._plan.entries, **entries})
        self.commit()

    def commit(self, *, only: tuple[str, ...] = ()) -> None:
        self._plan = replace(self._plan, version=self._plan.version + 1)
        self.tell(*(only or self.nodes))

    def tell(self, *names: str) -> None:
        facts = {
            name: LiveHub(
                self.nodes[name].core.incarnation, name, PORT, verbs=1 if name in self._legacy else VERBS
            )
            for name in sorted(self.alive)
        }
        for name in names:
            if name in self.alive:
                self.nodes[name].cluster.apply(Routing(self._plan, facts))
        self.settle()

    def kill(self, name: str) -> None:
        """The hub is declared dead at every hub. Its frames have arrived, unless they were held back."""
        self.alive.discard(name)
        self.tell(*self.nodes)

    def publish_first(self, hub: str, *topics: str) -> None:
        """A client of the hub publishes to topics: their homes know the hub, so that it answers the next at once."""
        client = self[hub].client()
        for topic in topics:
            client.send("PUBLISH", topic, "first")
        self.settle()
        assert all(isinstance(reply, int) for reply in client.read())

    def release(self, *link: str) -> None:
        self.held.discard(link)
        self.settle()

    def settle_now(self) -> None:
        """Let everything happen that can without time passing."""
        self.settle(0.0)

    def settle(self, step_s: float = 0.001) -> None:
        is_moving = True
        while is_moving:
            is_moving = self._connect()
            for name in sorted(self.alive):
                self.nodes[name].shell.advance(step_s)
            for link, (end, under_way) in list(self.connections.items()):
                if under_way and link not in self.held and set(link[:2]) <= self.alive:
                    data = b"".join(under_way)
                    under_way.clear()
                    end.send_raw(data)
                    is_moving = True
                    if end.wire.is_closing:
                        self.links[link].suspend()
                        self.connections.pop(link, None)

    def _connect(self) -> bool:
        """Greet on links without a connection; return whether one has to restart."""
        has_fallen = False
        for key, link in list(self.links.items()):
            source, target = key[:2]
            if key in self.connections or not {source, target} <= self.alive:
                continue
            own, peer = self.nodes[source].core, self.nodes[target]
            end = peer.client(user=HUB_USER)
            is_named = not self._legacy & {source, target}
            has_content = own.settings.cluster.filtered_links
            announcement = Announcement.of(own.limits, has_content=has_content) if is_named else None
            lives = (source, own.incarnation), (target, link.incarnation)
            greeting = spell_greeting(
                lives[0],
                None if link.is_control else announcement,
                generation=link.generation,
                peer=lives[1],
                is_control=link.is_control,
            )
            end.send_raw(greeting)
            *announced, offset = end.read()
            if isinstance(offset, int):
                for words in announced:
                    peer_says = Announcement.parse(words.split())
                    self.nodes[source].cluster.greeting.announced((target, link.incarnation), peer_says)
                under_way: list[bytes] = []
                self.connections[key] = (end, under_way)
                if not link.resume(offset, under_way.append):
                    link.fall()
                    has_fallen = True
        return has_fallen
