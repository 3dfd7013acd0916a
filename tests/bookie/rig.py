"""A bookie's engine on any disk, driven by the test: one request, one group, one reply."""

from __future__ import annotations

from equipoise.bookie.bookie import open_directory
from equipoise.bookie.engine import BookieEngine
from equipoise.bookie.manifest import Manifest, load_manifest, save_manifest
from equipoise.bookie.server import Asker
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import Disk
from equipoise.ledger.entry import LedgerEntry, encode_entry, ledger_key
from equipoise.ledger.wire import (
    LAST_ENTRY,
    AddAnswer,
    AddRequest,
    AuthAnswer,
    BatchAnswer,
    BatchRequest,
    Code,
    Flag,
    ReadAnswer,
    ReadRequest,
    decode_answer,
)

KEY = ledger_key(b"secret")
NONE = Flag(0)
SMALL = BookieSettings(segment_bytes=64 * 1024)


def stored(ledger: int, entry: int, payload: bytes = b"payload") -> bytes:
    return encode_entry(LedgerEntry(ledger, entry, entry - 1, 0, payload))


class Rig:
    """Opens the directory, a new one if it is empty. Open another on the same disk to start the bookie again."""

    def __init__(self, disk: Disk, settings: BookieSettings = SMALL) -> None:
        self.disk = disk
        manifest = load_manifest(disk)
        if manifest is None:
            manifest = Manifest(bookie="b1", instance="cluster", salt="5a" * 16)
            save_manifest(disk, manifest)
        self.engine: BookieEngine[Asker] = open_directory(disk, manifest, settings)

    def ask(self, *requests: AddRequest | ReadRequest) -> list[AddAnswer | ReadAnswer]:
        """Submit all, then write groups until everything is answered. In the order of the answers."""
        answers = [
            answer for request in requests if (answer := self.engine.submit(None, request)) is not None
        ]
        while self.engine.has_work:
            group = self.engine.take()
            if group is None:
                self.engine.segments.roll()
                continue
            if group.parts:
                self.engine.segments.write(group.offset, group.data)
            answers += [answer for _, answer in self.engine.commit(group)]
        found = [decode_answer(answer[4:]) for answer in answers]
        return [answer for answer in found if not isinstance(answer, AuthAnswer | BatchAnswer)]

    def add(
        self,
        ledger: int,
        entry: int,
        payload: bytes = b"payload",
        *,
        flags: Flag = NONE,
        key: bytes = KEY,
    ) -> Code:
        (answer,) = self.ask(AddRequest(ledger, entry, key, flags, stored(ledger, entry, payload)))
        return answer.code

    def read(self, ledger: int, entry: int) -> tuple[Code, bytes]:
        (answer,) = self.ask(ReadRequest(ledger, entry, None, Flag(0)))
        assert isinstance(answer, ReadAnswer)
        return answer.code, answer.body

    def read_batch(
        self, ledger: int, first: int, count_max: int = 100, bytes_max: int = 1 << 20
    ) -> tuple[Code, list[bytes]]:
        frame = self.engine.submit(None, BatchRequest(ledger, first, 9, count_max, bytes_max))
        assert frame is not None
        answer = decode_answer(frame[4:])
        assert isinstance(answer, BatchAnswer)
        assert (answer.ledger, answer.first, answer.ticket) == (ledger, first, 9)
        return answer.code, answer.bodies

    def fence(self, ledger: int, key: bytes = KEY) -> tuple[Code, bytes]:
        (answer,) = self.ask(ReadRequest(ledger, LAST_ENTRY, key, Flag.FENCE))
        assert isinstance(answer, ReadAnswer)
        return answer.code, answer.body
