"""The records a hub keeps for whoever reads them: by sequence, for a while, within a bound.

Numbers begin at 0 with each incarnation and have no holes. Nobody has to read: what is too old, or too much, falls
out at the old end, and a reader that was away learns from `oldest` how much it missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from equipoise.telemetry.block import Block

__all__ = ["Ring"]


class Ring:
    """Always true: it holds exactly the records from `oldest` to `end`; `bytes` is the sum over its blocks.

    The block just added stays, whatever its size: blocks are small against any bound.
    """

    def __init__(self, incarnation: int, *, keep_s: float, bytes_max: int) -> None:
        self.incarnation = incarnation
        self._keep_us = int(keep_s * 1_000_000)
        self._bytes_max = bytes_max
        self._blocks: deque[tuple[Block, int]] = deque()
        self.end = 0
        self.bytes = 0

    def __len__(self) -> int:
        return self.end - self.oldest

    @property
    def oldest(self) -> int:
        """The sequence of the first record that is still here; `end` if there is none."""
        return self._blocks[0][0].first if self._blocks else self.end

    def append(self, block: Block) -> None:
        """Give the block's records their numbers. Blocks come in the order of time, as far as the clock goes on."""
        if not block.count:
            return
        size_bytes = block.size_bytes
        self._blocks.append((replace(block, first=self.end), size_bytes))
        self.end += block.count
        self.bytes += size_bytes
        self._trim(block.latest_us - self._keep_us)

    def read(self, sequence: int) -> Iterator[tuple[Block, int]]:
        """Blocks with the record `sequence` and those behind it; and which record of the block is the first wanted.

        What has fallen out is left out. A ring that is appended to meanwhile may be read on.
        """
        behind: list[Block] = []
        for block, _ in reversed(self._blocks):
            if block.end <= sequence:
                break
            behind.append(block)
        for block in reversed(behind):
            yield block, max(0, sequence - block.first)

    def backwards(self) -> Iterator[Block]:
        """From the newest block on. Not to be appended to meanwhile."""
        return (block for block, _ in reversed(self._blocks))

    def _trim(self, before_us: int) -> None:
        while len(self._blocks) > 1 and (
            self.bytes > self._bytes_max or self._blocks[0][0].latest_us < before_us
        ):
            self.bytes -= self._blocks.popleft()[1]
