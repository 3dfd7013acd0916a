"""Opening and rolling a log over a store and ledgers: what is listed, what is deleted, who may claim."""

from __future__ import annotations

import asyncio

from equipoise.errors import LedgerError, StoreUnavailableError
from equipoise.hub.logs.hub_logs import HubLogs
from equipoise.hub.shell.log_opener import LogOpener
from equipoise.ledger.log import OpenLedger
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum
from equipoise.log.call import LogCall
from equipoise.log.commands import LOG_COMMANDS
from equipoise.store.backends.memory import MemoryStore
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.contract import Node
from equipoise.store.records.topic_logs import LogNode, TopicLogsStore
from equipoise.store.tree import Tree
from simulation.log_owners import LoopTime, answered
from support.polling import until

TOPIC = b"t"


class Place:
    """What survives a hub: the store and the ledgers."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.ledgers = MemoryLedgers(asyncio.get_running_loop().call_soon)
        self.living: set[str] = set()

    async def _is_alive(self, hub: str, incarnation: int) -> bool:
        return hub in self.living

    def hub(self, name: str, *, roll_bytes: int = 1_000) -> HubLogs:
        self.living.add(name)
        opener = LogOpener(
            self.store,
            Tree(),
            self.ledgers,
            hub=name,
            new_epoch=lambda: 0,
            incarnation=lambda: 1,
            is_alive=self._is_alive,
            quorum_of=lambda topic: Quorum(1, 1, 1),
        )
        return HubLogs(
            LoopTime(asyncio.get_running_loop()),  # type: ignore[arg-type]  # what logs use of a shell
            opener.open,
            may_ack=lambda: True,
            committed=lambda log, records: None,
            roll_log=opener.roll,
            roll_bytes=roll_bytes,
            release_log=opener.release,
        )

    async def own_by_dead_hub(self) -> None:
        """Then the next owner claims the topic first, and lists its ledger afterwards."""
        node = LogNode(owner="h0", incarnation=1, epoch=1)
        await TopicLogsStore(self.store, Tree()).save(TOPIC, node, None)

    async def node(self) -> LogNode:
        return (await TopicLogsStore(self.store, Tree()).load(TOPIC)).node


async def run(logs: HubLogs, *words: str) -> bytes:
    call = LogCall([word.encode() for word in words], logs.now_ms())
    name = words[0].lower()
    command = LOG_COMMANDS[f"xgroup|{words[1].lower()}" if name == "xgroup" else name]
    outcome = logs.of(TOPIC).submit(lambda log: command(log, call))
    return outcome if isinstance(outcome, bytes) else await answered(outcome)


async def place() -> Place:
    return Place(await MemoryStore(MemoryTree(asyncio.get_running_loop().time)).open())


def test_a_long_ledger_is_followed_by_another_and_a_trimmed_one_is_deleted() -> None:
    async def main() -> None:
        world = await place()
        logs = world.hub("h1")
        for number in range(60):
            assert (await run(logs, "XADD", "t", f"1-{number + 1}", "f", "x" * 100))[:1] == b"$"
        node = await world.node()
        assert len(node.ledgers) > 3
        assert {part.epoch for part in node.ledgers} == {node.epoch}
        assert (await run(logs, "XGROUP", "CREATE", "t", "g", "0"))[:1] == b"+"
        await run(logs, "XTRIM", "t", "MAXLEN", "5")
        for number in range(60, 75):
            await run(logs, "XADD", "t", f"1-{number + 1}", "f", "x" * 100)
        await until(lambda: len(world.ledgers.ledgers) < len(node.ledgers))
        before = list(logs.of(TOPIC).log.entries.range())
        logs.close()
        world.living.clear()
        again = world.hub("h2")
        assert await run(again, "XLEN", "t") == b":20\r\n"
        state = again.of(TOPIC).log
        assert list(state.entries.range()) == before
        assert state.groups.keys() == {b"g"}
        assert (await world.node()).owner == "h2"
        again.close()
        await world.store.close()

    asyncio.run(main())


class LaggingStore(MemoryStore):
    """Its server has the nodes of a while ago, until it is synchronised."""

    is_behind = True

    async def find(self, path: str) -> Node | None:
        return None if self.is_behind else await super().find(path)

    async def sync(self) -> None:
        await super().sync()
        self.is_behind = False


def test_a_log_that_another_hub_has_just_created_exists_though_the_store_lags() -> None:
    async def main() -> None:
        world = await place()
        logs = world.hub("h1")
        tree = world.store.tree
        records = TopicLogsStore(await LaggingStore(tree).open(), Tree())
        assert not await records.exists(TOPIC)
        await run(logs, "XADD", "t", "1-1", "f", "v")
        lagging = await LaggingStore(tree).open()
        assert (await TopicLogsStore(lagging, Tree()).load(TOPIC)).version is None
        assert await TopicLogsStore(lagging, Tree()).exists(TOPIC)
        logs.close()
        await world.store.close()

    asyncio.run(main())


def test_a_topic_of_a_live_hub_is_not_claimed() -> None:
    async def main() -> None:
        world = await place()
        first, second = world.hub("h1"), world.hub("h2")
        await run(first, "XADD", "t", "1-1", "f", "v")
        waiting = asyncio.create_task(run(second, "XLEN", "t"))
        await until(lambda: "hub h1 owns the topic" in second.of(TOPIC).problem)
        assert (await world.node()).owner == "h1"
        world.living.discard("h1")
        assert await waiting == b":1\r\n"
        node = await world.node()
        assert node.owner == "h2"
        # Attempts that waited in vain have used epochs up.
        assert node.epoch > 1
        first.close()
        second.close()
        await world.store.close()

    asyncio.run(main())


def test_a_claim_waits_for_the_release_of_the_present_owner() -> None:
    async def main() -> None:
        world = await place()
        first, second = world.hub("h1"), world.hub("h2")
        await run(first, "XADD", "t", "1-1", "f", "v")
        waiting = asyncio.create_task(run(second, "XLEN", "t"))
        await asyncio.sleep(0)
        first.seal(first.of(TOPIC))
        assert await waiting == b":1\r\n"
        # It was not refused in between, to be tried again later.
        assert second.of(TOPIC).problem == ""
        assert (await world.node()).owner == "h2"
        first.close()
        second.close()
        await world.store.close()

    asyncio.run(main())


def test_what_was_prepared_is_used_after_the_release_and_deleted_without_one() -> None:
    async def main() -> None:
        world = await place()
        first, second = world.hub("h1"), world.hub("h2")
        await run(first, "XADD", "t", "1-1", "f", "v")
        (owned,) = world.ledgers.ledgers
        waiting = asyncio.create_task(run(second, "XLEN", "t"))
        await until(lambda: len(world.ledgers.ledgers) == 2)
        # The owner goes on meanwhile.
        assert await run(first, "XADD", "t", "2-1", "f", "v") == b"$3\r\n2-1\r\n"
        await until(lambda: "hub h1 owns the topic" in second.of(TOPIC).problem)
        await until(lambda: world.ledgers.ledgers == (owned,))
        # The next attempt.
        await until(lambda: len(world.ledgers.ledgers) == 2)
        (_, prepared) = world.ledgers.ledgers
        first.seal(first.of(TOPIC))
        assert await waiting == b":2\r\n"
        assert [part.ledger for part in (await world.node()).ledgers] == [owned, prepared]
        first.close()
        second.close()
        await world.store.close()

    asyncio.run(main())


def test_a_log_with_many_ledgers_is_folded_in_their_order() -> None:
    async def main() -> None:
        world = await place()
        for turn in range(20):
            logs = world.hub(f"h{turn}")
            await run(logs, "XADD", "t", f"{turn + 1}-1", "f", "v")
            logs.seal(logs.of(TOPIC))
            await until(lambda logs=logs: not logs.by_name)  # type: ignore[misc]
        last = world.hub("last")
        assert await run(last, "XLEN", "t") == b":20\r\n"
        assert len((await world.node()).ledgers) == 21
        found = [at for at, _ in last.of(TOPIC).log.entries.range()]
        assert found == [(turn + 1, 1) for turn in range(20)]
        last.close()
        await world.store.close()

    asyncio.run(main())


def test_a_claim_is_released_if_opening_fails_and_the_log_is_not_wanted_any_more() -> None:
    """1. A hub claims a topic. 2. The plan names another home. 3. No ledger can be made, so it is not opened here.

    Found by `equipoise simulate --case durable-sites --replay 7002`: the topic stayed claimed for good.
    """

    async def main() -> None:
        world = await place()
        await world.own_by_dead_hub()
        first, second = world.hub("h1"), world.hub("h2")
        create = world.ledgers.create

        async def fail(topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
            assert (await world.node()).owner == "h1"
            first.seal(first.of(TOPIC))
            raise LedgerError(0, "too few bookies")

        world.ledgers.create = fail  # type: ignore[method-assign]
        first.of(TOPIC)
        await until(lambda: not first.by_name)
        world.ledgers.create = create  # type: ignore[method-assign]
        assert await run(second, "XADD", "t", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        second.close()
        await world.store.close()

    asyncio.run(main())


def test_a_claim_is_released_if_opening_has_failed_before_the_log_moves() -> None:
    """1. A hub claims a topic. 2. No ledger can be made; the hub is to try again. 3. The plan names another home first.

    Found by `equipoise simulate --case durable-sites --replay 20000`: no hub could open the log any more.
    """

    async def main() -> None:
        world = await place()
        await world.own_by_dead_hub()
        first, second = world.hub("h1"), world.hub("h2")
        create = world.ledgers.create

        async def fail(topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
            raise LedgerError(0, "too few bookies")

        world.ledgers.create = fail  # type: ignore[method-assign]
        live = first.of(TOPIC)
        await until(lambda: "too few" in live.problem)
        assert (await world.node()).owner == "h1"
        first.seal(live)
        world.ledgers.create = create  # type: ignore[method-assign]
        assert await run(second, "XADD", "t", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        assert not first.by_name
        second.close()
        await world.store.close()

    asyncio.run(main())


def test_a_claim_whose_reply_was_lost_is_released_with_the_log() -> None:
    async def main() -> None:
        world = await place()
        first, second = world.hub("h1"), world.hub("h2")
        create = world.store.create

        async def create_without_reply(path: str, data: bytes = b"", **how: object) -> Node:
            world.store.create = create  # type: ignore[method-assign]
            await world.store.ensure(path.rpartition("/")[0])
            await create(path, data, **how)  # type: ignore[arg-type]  # as the caller has them
            raise StoreUnavailableError("no reply")

        world.store.create = create_without_reply  # type: ignore[method-assign]
        live = first.of(TOPIC)
        await until(lambda: "no reply" in live.problem)
        assert (await world.node()).owner == "h1"
        first.seal(live)
        assert await run(second, "XADD", "t", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        second.close()
        await world.store.close()

    asyncio.run(main())


def test_the_next_owner_knows_what_subscribers_were_sent_unless_the_former_one_died() -> None:
    async def main() -> None:
        world = await place()
        sent = list[int]()
        for name in ("h1", "h2", "h3", "h4"):
            logs = world.hub(name)
            await run(logs, "XADD", "t", "*", "f", "v")
            live = logs.of(TOPIC)
            sent.append(live.sent_number)
            if name == "h3":
                live.sent_number = 3
                world.living.discard(name)
                continue
            live.sent_number = {"h1": 1}.get(name, live.sent_number)
            logs.seal(live)
            await until(lambda logs=logs: not logs.by_name)  # type: ignore[misc]
        assert sent == [-1, 1, 1, -1]
        await world.store.close()

    asyncio.run(main())


def test_a_hub_that_opens_its_log_again_knows_what_subscribers_were_sent() -> None:
    """1. An append fails. 2. The claim succeeds, and no ledger can be made. 3. The hub tries again."""

    async def main() -> None:
        world = await place()
        logs = world.hub("h1")
        await run(logs, "XADD", "t", "1-1", "f", "v")
        live = logs.of(TOPIC)
        live.sent_number = 1
        create = world.ledgers.create

        async def fail(topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
            world.ledgers.create = create  # type: ignore[method-assign]
            raise LedgerError(0, "too few bookies")

        world.ledgers.create = fail  # type: ignore[method-assign]
        await world.ledgers.recover(world.ledgers.ledgers[-1])
        assert (await run(logs, "XADD", "t", "2-1", "f", "v"))[:10] == b"-UNCERTAIN"
        assert await run(logs, "XLEN", "t") == b":1\r\n"
        assert live.sent_number == 1
        logs.close()
        await world.store.close()

    asyncio.run(main())
