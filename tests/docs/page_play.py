"""Play a page of the documentation: all of its blocks, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from docs.blocks import Block, Fresh, blocks_of, needs_of, pages
from docs.playing import SPARK_WORDS, Reader, console_steps
from support.node import require_ioredis
from support.processes import hub as hub_process
from support.processes import require
from support.zookeeper import require_zookeeper

__all__ = ["RUN", "play_page", "played_pages"]

RUN = ("python", "sh", "console", "js")


def played_pages(*, has_spark: bool) -> list[str]:
    """Pages that have blocks to run, with Spark or without."""
    found = []
    for page in pages():
        texts = [part.text for part in runnable(page) if isinstance(part, Block)]
        if texts and has_spark == any(words in text for words in SPARK_WORDS for text in texts):
            found.append(page)
    return found


def runnable(page: str) -> list[Block | Fresh]:
    return [
        part for part in blocks_of(page) if isinstance(part, Fresh) or (part.is_run and part.language in RUN)
    ]


def play_page(page: str, folder: Path, system: Callable[[], Reader]) -> None:
    """`system`: the reader of pages that begin with a whole system at work."""
    require("redis-cli")
    parts = runnable(page)
    texts = [part.text for part in parts if isinstance(part, Block)]
    if any("equipoise store" in text or "equipoise up" in text for text in texts):
        require_zookeeper()
    match needs_of(page):
        case "up":
            play(parts, system(), page)
        case "hub":
            with hub_process() as running:
                reader = Reader(folder)
                reader.ports["6399"] = running.port
                play_and_stop(parts, reader, page)
        case other:
            assert other == ""
            play_and_stop(parts, Reader(folder), page)


def play_and_stop(parts: list[Block | Fresh], reader: Reader, page: str) -> None:
    try:
        play(parts, reader, page)
    finally:
        reader.stop()


def play(parts: list[Block | Fresh], reader: Reader, page: str) -> None:
    for part in parts:
        if isinstance(part, Fresh):
            reader.stop()
            continue
        try:
            run(part, reader)
        except AssertionError as problem:
            raise AssertionError(f"{page}, line {part.line}: {problem}") from None


def run(block: Block, reader: Reader) -> None:
    match block.language:
        case "console":
            reader.play(console_steps(block.text))
        case "sh":
            reader.shell(block.text)
        case "python":
            reader.run([sys.executable], block.program, ".py")
        case "js":
            reader.run([require_ioredis()], block.text, ".cjs")
