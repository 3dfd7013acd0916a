"""Safeguards of bookies and ledgers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from equipoise.bookie import segments as bookie_segments
from equipoise.bookie.bookie import Bookie
from equipoise.bookie.engine import BookieEngine, KeepMark
from equipoise.bookie.frame import Scan, scan_segment
from equipoise.bookie.manifest import Manifest, load_manifest, save_manifest
from equipoise.bookie.segments import Segments
from equipoise.lab.simulation.ablation import Ablation, replaced, replacing
from equipoise.lab.simulation.checkers import kept
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.registration import Cookie
from equipoise.ledger.wire import AddRequest, Code, Flag, ReadRequest
from equipoise.ledger.writer import LedgerWriter

__all__ = ["DURABLE_ABLATIONS"]


def _write_without_sync(segments: Segments, offset: int, data: bytes) -> None:
    segments.open.file.write(offset, data)


async def _admit_anything(bookie: Bookie) -> Manifest:
    """Start on any directory, including an emptied one."""
    manifest = load_manifest(bookie._disk)
    if manifest is None:
        salt = bookie._random.randbytes(16).hex()
        manifest = Manifest(bookie=bookie.facts.name, instance=bookie._instance, salt=salt)
        save_manifest(bookie._disk, manifest)
        if await bookie._bookies.cookie(bookie.facts.name) is None:
            cookie = Cookie(bookie=bookie.facts.name, directory=salt, instance=bookie._instance)
            await bookie._bookies.add_cookie(cookie)
    return manifest


def _cut_at_damage(data: bytes, seed: int, segment: int, end: int | None = None) -> Scan:
    """Treat every bad frame as a torn tail."""
    scan = scan_segment(data, seed, segment, end)
    if not scan.damage:
        return scan
    begin = scan.damage[0][0]
    return Scan([frame for frame in scan.frames if frame.offset < begin], begin, [], 0)


_look_up = BookieEngine._look_up
_refusal = BookieEngine._refusal


def _damage_as_absence(engine: BookieEngine[object], ledger: int, entry: int) -> tuple[Code, bytes]:
    code, body = _look_up(engine, ledger, entry)
    return (Code.NO_ENTRY if code is Code.UNKNOWN else code), body


def _refuse_other_keys_only(
    engine: BookieEngine[object], request: AddRequest | ReadRequest | KeepMark
) -> bytes | None:
    """Accept ordinary adds to fenced ledgers."""
    if isinstance(request, AddRequest):
        request = request._replace(flags=request.flags | Flag.RECOVERY)
    return _refusal(engine, request)


@contextmanager
def _without_cluster_identity() -> Iterator[None]:
    async def instance_of_the_bookie(bookie: Bookie) -> int:
        identity = bookie._instance

        async def instance() -> str:
            return identity

        bookie._ledgers.instance = instance  # type: ignore[method-assign]  # that is the point
        return await collect(bookie)

    collect = Bookie.collect
    with replaced(Bookie, "collect", instance_of_the_bookie):
        yield


def _ablation(
    name: str, summary: str, case: str, off: Callable[[], AbstractContextManager[None]], seed: int = 0
) -> Ablation:
    return Ablation(f"ledger-{name}", summary, kept.NAME, f"durable-{case}", off, seed)


_use_metadata = LedgerWriter._use_metadata


def _acknowledge_after_one(writer: LedgerWriter, metadata: LedgerMetadata) -> None:
    _use_metadata(writer, metadata)
    writer._needed = writer._needed_of_header = 1


DURABLE_ABLATIONS = (
    _ablation(
        "sync",
        "A bookie syncs before it acknowledges.",
        "power",
        replacing(Segments, "write", _write_without_sync),
    ),
    _ablation(
        "ack-quorum",
        "A writer acknowledges an entry after its whole ack quorum.",
        "torn",
        replacing(LedgerWriter, "_use_metadata", _acknowledge_after_one),
        seed=5,
    ),
    _ablation(
        "explicit-no",
        "Recovery counts an entry as absent only if enough members report so that it cannot have been "
        "acknowledged.",
        "recovery",
        replacing(Quorum, "absent", property(lambda quorum: 1)),
        seed=8,
    ),
    _ablation(
        "emptied",
        "A bookie does not start on an emptied directory.",
        "emptied",
        replacing(Bookie, "_admit", _admit_anything),
        seed=12,
    ),
    _ablation(
        "synced-to",
        "A bad frame in the synced part of a segment is damage, not a torn tail.",
        "rot",
        replacing(bookie_segments, "scan_segment", _cut_at_damage),
        seed=27,
    ),
    _ablation(
        "damage",
        "A bookie reports a damaged entry as unknown, never as absent.",
        "rot",
        replacing(BookieEngine, "_look_up", _damage_as_absence),
        seed=6,
    ),
    _ablation(
        "fencing",
        "A fenced ledger rejects ordinary adds.",
        "recovery",
        replacing(BookieEngine, "_refusal", _refuse_other_keys_only),
        seed=1,
    ),
    _ablation(
        "cluster-identity",
        "A bookie deletes ledgers only if the store belongs to its cluster.",
        "metadata",
        _without_cluster_identity,
    ),
)
