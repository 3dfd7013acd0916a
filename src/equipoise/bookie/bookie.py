"""One bookie: its directory, server, registration in the store and background work.

A directory belongs to one bookie of one cluster: the store has a cookie for it, the directory a manifest. If one of the
two is missing or they contradict each other, the bookie does not start: with an emptied disk it would answer "no entry"
for entries that it had acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from random import Random

from equipoise.bookie.engine import BookieEngine
from equipoise.bookie.logins import BookieSecurity, judge_login
from equipoise.bookie.manifest import Manifest, load_deleted, load_manifest, save_deleted, save_manifest
from equipoise.bookie.restoration import restore_entries
from equipoise.bookie.segments import SealedSegment, Segments
from equipoise.bookie.server import Asker, BookieServer
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import Disk
from equipoise.errors import DamagedError, DiskFailedError, DiskFullError, SettingsError, StoreError
from equipoise.ledger.registration import BookieFacts, Cookie, local_socket
from equipoise.ledger_client.bookie_pool import BookiePool
from equipoise.store.contract import SessionState, Store
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.records.ledgers import LedgersStore
from equipoise.store.tree import Tree

__all__ = ["Bookie", "open_directory"]

log = logging.getLogger("equipoise.bookie")

_SALT_BYTES = 16
# Delay before an access to the store is retried.
_RETRY_S = 1.0


def open_directory(disk: Disk, manifest: Manifest, settings: BookieSettings) -> BookieEngine[Asker]:
    """Open a bookie's directory: cut a torn tail, build missing indexes. Raises DamagedError, DiskFullError."""
    segments = Segments(disk, manifest, settings.segment_bytes)
    if segments.torn_bytes:
        log.info("cut %d bytes of an unacknowledged write", segments.torn_bytes)
    for segment in segments.sealed:
        for begin, end in segment.damage:
            log.error("segment %d is damaged from %d to %d", segment.number, begin, end)
    return BookieEngine(segments, load_deleted(disk), settings)


class Bookie:
    """Runs until it is cancelled or its disk fails. `facts`: its registration in the store."""

    def __init__(
        self,
        facts: BookieFacts,
        disk: Disk,
        store: Store,
        tree: Tree,
        random: Random,
        settings: BookieSettings | None = None,
        security: BookieSecurity | None = None,
    ) -> None:
        """`security` None: serve every client, without TLS."""
        self.facts = facts
        self._tree = tree
        self._security = security
        self.settings = settings or BookieSettings()
        self._disk = disk
        self._store = store
        self._bookies = BookiesStore(store, tree)
        self._ledgers = LedgersStore(store, tree)
        self._random = random
        self._instance = ""
        self._server: BookieServer | None = None
        self._changed = asyncio.Event()
        self._is_draining = False

    @property
    def server(self) -> BookieServer:
        assert self._server is not None, "the bookie was started"
        return self._server

    # --- start and stop

    async def start(self, *, listen_host: str, listen_port: int | None = None) -> None:
        """Check the directory against the store, open it, listen, register.

        Raises SettingsError if the directory belongs to another bookie, was emptied, or was written by a newer version;
        DamagedError if parts are missing.
        """
        self._instance = await self._ledgers.prepare(self._uuid())
        manifest = await self._admit()
        engine = open_directory(self._disk, manifest, self.settings)
        security = self._security
        judge = None if security is None else partial(judge_login, self._store, self._tree)
        self._server = BookieServer(self._disk, engine, judge, loop_sync_s=self.settings.loop_sync_s)
        try:
            await self._serve(listen_host, listen_port, manifest)
        except BaseException:
            # A later start binds the same port.
            await self.server.close()
            raise
        log.info(
            "bookie %s at %s:%d has %d ledgers in %d segments",
            self.facts.name,
            self.facts.host,
            self.facts.port,
            len(engine.ledgers),
            len(engine.segments.sealed),
        )

    async def _serve(self, listen_host: str, listen_port: int | None, manifest: Manifest) -> None:
        security = self._security
        self._look_at_room()
        port = await self.server.bind(
            listen_host,
            self.facts.port if listen_port is None else listen_port,
            None if security is None else security.context(),
            "" if security is not None else local_socket(self.facts.host, manifest.salt),
        )
        self._update(port=self.facts.port or port, directory=manifest.salt)
        await self._register()
        await self.server.accept()

    async def run(self) -> None:
        """Serve. Raises DiskFailedError once a sync has failed."""
        leave = self._store.listen(lambda state: self._session_changed(state))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.server.run())
                tasks.create_task(self._keep_registered())
                tasks.create_task(self._watch_room())
                tasks.create_task(self._report())
                tasks.create_task(self._watch_draining())
                tasks.create_task(self._collect())
                tasks.create_task(self._restore())
        except* DiskFailedError as group:
            raise group.exceptions[0] from None
        finally:
            leave()
            await self.server.close()

    async def stop(self) -> None:
        """Withdraw the registration and seal the open segment."""
        with suppress(StoreError):
            await self._bookies.withdraw(self.facts.name)
        await self.server.close()
        self.server.engine.segments.close()

    async def _admit(self) -> Manifest:
        name = self.facts.name
        await self._check_kind()
        manifest, cookie = load_manifest(self._disk), await self._bookies.cookie(name)
        if manifest is None:
            if cookie is not None:
                raise SettingsError(
                    f"bookie {name} has stored entries before, and its directory is empty: give it its old directory, "
                    f"or another name; `equipoise bookies forget {name}` declares its entries lost"
                )
            manifest = Manifest(
                bookie=name, instance=self._instance, salt=self._random.randbytes(_SALT_BYTES).hex()
            )
            save_manifest(self._disk, manifest)
        self._check_owner(manifest, cookie)
        if cookie is None:
            if manifest.segments:
                raise SettingsError(
                    f"the directory has entries of bookie {name}, which the cluster has forgotten: "
                    "give the bookie an empty directory"
                )
            await self._bookies.add_cookie(
                Cookie(bookie=name, directory=manifest.salt, instance=self._instance)
            )
        return manifest

    async def _check_kind(self) -> None:
        """Refuse to run beside Apache BookKeeper: its autorecovery and tools use another protocol version."""
        for name in await self._bookies.cookies():
            cookie = await self._bookies.cookie(name)
            if cookie is not None and not cookie.is_ours:
                raise SettingsError(
                    f"bookie {name} of this region is one of Apache BookKeeper's: a region has bookies of one kind"
                )

    def _check_owner(self, manifest: Manifest, cookie: Cookie | None) -> None:
        name = self.facts.name
        if (manifest.bookie, manifest.instance) != (name, self._instance):
            raise SettingsError(
                f"the directory belongs to bookie {manifest.bookie} of cluster {manifest.instance}, "
                f"not to bookie {name} of cluster {self._instance}"
            )
        if cookie is not None and (cookie.directory, cookie.instance) != (manifest.salt, manifest.instance):
            raise SettingsError(f"bookie {name} of this cluster has another directory than this one")

    def _uuid(self) -> str:
        digits = self._random.randbytes(16).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    # --- registration

    def _update(self, *, port: int | None = None, directory: str | None = None) -> None:
        room = self._disk.room()
        facts = self.facts
        self.facts = BookieFacts(
            name=facts.name,
            host=facts.host,
            port=facts.port if port is None else port,
            site=facts.site,
            rack=facts.rack,
            free_bytes=room.free_bytes,
            total_bytes=room.total_bytes,
            sync_us_p99=int(self.server.sync_s_p99 * 1e6),
            directory=facts.directory if directory is None else directory,
            is_read_only=self.server.engine.is_read_only,
            is_secured=self._security is not None,
            has_batches=True,
        )

    async def _register(self) -> None:
        self._update()
        await self._bookies.register(self.facts)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._changed.set()

    async def _keep_registered(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._register()
            except StoreError as error:
                log.warning("registration: %s", error)
                await asyncio.sleep(_RETRY_S)
                self._changed.set()

    async def _watch_draining(self) -> None:
        while True:
            try:
                async with self._bookies.watch_draining(self.facts.name) as watch:
                    while True:
                        self.server.engine.is_draining = await self._bookies.is_draining(self.facts.name)
                        if self.server.engine.is_read_only != self.facts.is_read_only:
                            self._changed.set()
                        await watch.changed()
            except StoreError as error:
                log.warning("draining: %s", error)
            await asyncio.sleep(_RETRY_S)

    async def _report(self) -> None:
        """Report free space and sync time to the store, for operators and for placement."""
        while True:
            await asyncio.sleep(self.settings.report_interval_s)
            self._changed.set()

    # --- room

    async def _watch_room(self) -> None:
        while True:
            await asyncio.sleep(self.settings.room_interval_s)
            self._look_at_room()
            engine = self.server.engine
            if engine.is_read_only != self.facts.is_read_only:
                log.warning("%s", "read-only" if engine.is_read_only else "accepts entries again")
                self._changed.set()
            if engine.needs_spare and self._has_segment_room():
                with suppress(DiskFullError):
                    await self.server.in_thread(engine.segments.prepare)

    def _look_at_room(self) -> None:
        used, engine = self._disk.room().used, self.server.engine
        limit = self.settings.writable_used if engine.is_full else self.settings.read_only_used
        engine.is_full = used >= limit
        if engine.lacks_segment and self._has_segment_room():
            engine.lacks_segment = False

    def _has_segment_room(self) -> bool:
        """Whether the disk has room for another segment, its index and the manifest."""
        segment_bytes = self.settings.segment_bytes
        return self._disk.room().free_bytes >= segment_bytes + segment_bytes // 8

    # --- damage

    async def _restore(self) -> None:
        """After damage that may have destroyed any entry: restore entries, then leave the read-only state."""
        if not self.server.engine.segments.has_doubt:
            return
        pool = BookiePool(self._bookies, access=None if self._security is None else self._security.access)
        started = False
        try:
            while True:
                try:
                    if not started:
                        await pool.start()
                        started = True
                    if await restore_entries(self.server, pool, self._ledgers, self.facts.name):
                        break
                except (StoreError, DiskFullError) as error:
                    log.warning("repair postponed: %s", error)
                await asyncio.sleep(_RETRY_S)
        finally:
            await pool.close()
        log.warning("damaged entries are restored from other bookies")
        self._changed.set()

    # --- collection

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(self.settings.collection_interval_s)
            try:
                await self.collect()
            except (StoreError, DiskFullError) as error:
                log.warning("collection postponed: %s", error)

    async def collect(self) -> int:
        """Drop ledgers whose node is deleted and free their space. Returns how many were dropped.

        Drops nothing if the store belongs to another cluster, or contains nodes that cannot be read.
        """
        engine = self.server.engine
        candidates = set(engine.ledgers)
        if await self._ledgers.instance() != self._instance:
            raise DamagedError("INSTANCEID", "the store belongs to another cluster: no ledger is dropped")
        async for ledger in self._ledgers.ids():
            candidates.discard(ledger)
        dead = [ledger for ledger in sorted(candidates) if not await self._ledgers.exists(ledger)]
        # Checked again at the end: all these answers came from the bookie's own cluster.
        if dead and await self._ledgers.instance() == self._instance:
            await self.server.in_thread(save_deleted, self._disk, engine.forget(dead))
            log.info("dropped %d deleted ledgers", len(dead))
        for segment in list(engine.segments.sealed):
            await self._compact(segment)
        return len(dead)

    async def _compact(self, segment: SealedSegment) -> None:
        engine = self.server.engine
        share = engine.live_share(segment)
        if segment.is_kept or segment.damage or share > self.settings.compaction_live_max:
            return
        try:
            await self.server.copy(segment, bytes_per_s=self.settings.compaction_bytes_per_s)
        except (DamagedError, DiskFailedError) as error:
            log.error("segment %d is not rewritten: %s", segment.number, error)
            segment.is_kept = True
            return
        engine.segments.detach(segment)
        try:
            await self.server.in_thread(engine.segments.remove, segment)
        except DiskFullError:
            # The next collection tries again.
            engine.segments.attach(segment)
            raise
        log.info("segment %d is removed, %.0f %% of it was live", segment.number, 100 * share)
