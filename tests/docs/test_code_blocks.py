"""Every code block of the documentation works as it is written there; pages with Spark are in test_spark_pages.py.

Each page is read from top to bottom by a reader who types what it says. Blocks that cannot be run here are counted, so
that one more of them is a decision, and their syntax is checked.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.blocks import ROOT, Block, blocks_of, pages
from docs.checking import check_syntax
from docs.page_play import RUN, play_page, played_pages
from docs.playing import Reader, console_steps, is_told
from support.zookeeper import require_zookeeper

# By page, blocks that are not run, each for one of these reasons: it needs other machines (their names, their root,
# their certificates, a Spark cluster, their directories), many minutes, a checkout of its own, or it is a part of a
# program that stands in no one place.
NOT_RUN = {
    "README.md": 1,
    "docs/concepts/content.md": 1,
    "docs/howto/add-an-experiment.md": 2,
    "docs/howto/profile-a-hub.md": 1,
    "docs/howto/replay-a-seed.md": 2,
    "docs/howto/run-a-gateway.md": 1,
    "docs/howto/run-bookies.md": 1,
    "docs/howto/run-on-several-machines.md": 9,
    "docs/howto/run-several-hubs.md": 1,
    "docs/howto/run-the-pipeline.md": 6,
    "docs/howto/use-apache-bookkeeper.md": 1,
    "docs/howto/use-redis-clients.md": 1,
    "docs/howto/use-topics-in-spark.md": 2,
    "docs/howto/write-a-policy.md": 2,
    "docs/internals/tests.md": 1,
    "docs/quickstart.md": 1,
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A whole system but for the pipeline, for all pages that need one."""
    require_zookeeper()
    reader = Reader(tmp_path_factory.mktemp("system"))
    try:
        reader.play([("equipoise up", ["equipoise is up …", "… ready", "… ready"])])
        yield reader
    finally:
        reader.stop()


@pytest.mark.needs_java
@pytest.mark.needs_redis
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", played_pages(has_spark=False))
def test_a_page_works_as_written(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    play_page(page, tmp_path, lambda: request.getfixturevalue("system"))


@pytest.mark.parametrize("page", pages())
def test_every_block_that_is_not_run_could_be(page: str, tmp_path: Path) -> None:
    for part in blocks_of(page):
        if isinstance(part, Block) and not (part.is_run and part.language in RUN):
            try:
                check_syntax(part, tmp_path)
            except Exception as problem:
                raise AssertionError(f"{page}, line {part.line}: {problem}") from problem


def test_no_more_blocks_than_these_are_not_run() -> None:
    found = {
        page: count
        for page in pages()
        if (count := sum(isinstance(part, Block) and not part.is_run for part in blocks_of(page)))
    }
    assert found == NOT_RUN


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    dead = [link for link in links if not re.match(r"[a-z]+:", link) and not (folder / link).exists()]
    assert dead == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    missing = [
        page
        for page in pages()
        if page.startswith("docs/") and page != "docs/README.md" and page.removeprefix("docs/") not in index
    ]
    assert missing == [], "name it in docs/README.md"


def test_what_is_expected_is_found_in_order_with_others_between() -> None:
    assert is_told(["a", "b…d"], ["x", "a", "y", "b c d"])
    assert not is_told(["b", "a"], ["a", "b"])
    assert not is_told(["a"], ["ab"])
    assert console_steps("$ one  # why\nsays\n$ two \\\n  more\n") == [("one", ["says"]), ("two    more", [])]


def test_a_wrong_block_fails(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    with pytest.raises(AssertionError, match="status 3"):
        reader.shell("exit 3")
    with pytest.raises(AssertionError, match="status 1"):
        reader.run([sys.executable], "raise SystemExit(1)", ".py")
    with pytest.raises(AssertionError, match="status 4"):
        # Nothing is to be seen of it, so its end is waited for.
        reader.play([("exit 4", [])])
    started = reader.type("sleep 60")
    reader.stop()
    # A shell that runs the tests in the background has its children ignore SIGINT.
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert started.process.poll() == -(signal.SIGKILL if is_ignored else signal.SIGINT)
