"""The records a hub keeps for whoever reads them: by sequence, for a while, within a bound.

Numbers begin at 0 with each incarnation and have no holes. Nobody has to read: what is too old, or too much, falls
out at the old end, and a reader that was away learns from `oldest` how much it missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from equipoise.telemetry.block import BLOCK_BYTES, Block, size_bytes_of

__all__ = ["TelemetryRing"]


class TelemetryRing:
    """Always true: it holds exactly the records from `oldest` to `end`; `bytes` is what its blocks take together.

    The block just added stays, whatever its size: blocks are small against any bound.
    """

    def __init__(self, incarnation: int, *, retention_s: float, bytes_max: int) -> None:
        self.incarnation = incarnation
        self._keep_us = int(retention_s * 1_000_000)
        self._bytes_max = bytes_max
        self._blocks: deque[Block] = deque()
        # By the identity of each column, how many blocks share it.
        self._shared: dict[int, int] = {}
        self.end = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self.end - self.oldest

    @property
    def oldest(self) -> int:
        """The sequence of the first record that is still here; `end` if there is none."""
        return self._blocks[0].first if self._blocks else self.end

    def append(self, block: Block) -> None:
        """Give the block's records their numbers. Blocks come in the order of time, as far as the clock goes on."""
        if not block.count:
            return
        self._blocks.append(replace(block, first=self.end))
        self.end += block.count
        self._count(block)
        self._trim(block.latest_us - self._keep_us)

    def read(self, sequence: int) -> Iterator[tuple[Block, int]]:
        """Blocks with the record `sequence` and those behind it; and which record of the block is the first wanted.

        What has fallen out is left out. A ring that is appended to meanwhile may be read on.
        """
        behind: list[Block] = []
        for block in reversed(self._blocks):
            if block.end <= sequence:
                break
            behind.append(block)
        for block in reversed(behind):
            yield block, max(0, sequence - block.first)

    def backwards(self) -> Iterator[Block]:
        """From the newest block on. Not to be appended to meanwhile."""
        return iter(reversed(self._blocks))

    def _trim(self, before_us: int) -> None:
        while len(self._blocks) > 1 and (
            self.bytes > self._bytes_max or self._blocks[0].latest_us < before_us
        ):
            self._discount(self._blocks.popleft())

    def _count(self, block: Block) -> None:
        self.bytes += BLOCK_BYTES
        for column in block.held:
            blocks = self._shared.get(id(column), 0)
            self._shared[id(column)] = blocks + 1
            if not blocks:
                self.bytes += size_bytes_of(column)

    def _discount(self, block: Block) -> None:
        self.bytes -= BLOCK_BYTES
        for column in block.held:
            blocks = self._shared[id(column)] - 1
            if blocks:
                self._shared[id(column)] = blocks
            else:
                del self._shared[id(column)]
                self.bytes -= size_bytes_of(column)
