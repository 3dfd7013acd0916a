"""How tests are shared among workers: what clashes stays together, the longest comes first, and what is kept exists."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

from support.schedule import DURATIONS, UNKNOWN_S, ByDuration


def scheduler(**kept: float) -> ByDuration:
    made = ByDuration.__new__(ByDuration)
    made._kept = {f"tests/{name}.py": seconds for name, seconds in kept.items()}
    made._seconds = {}
    return made


def test_a_module_is_one_piece_and_so_is_a_group_of_modules() -> None:
    made = scheduler()
    assert made._split_scope("tests/local/test_up_whole.py::test_a[x@y]") == "@up"
    assert made._split_scope("tests/demo/test_command.py::test_b") == "@up"
    assert made._split_scope("tests/pipeline/test_query.py::test_c") == "@spark"
    assert made._split_scope("tests/test_schedule.py::TestMany::test_d[1]") == "tests/test_schedule.py"
    assert made._split_scope("tests/not_there.py::test_e") == "tests/not_there.py"


def test_the_longest_piece_comes_first() -> None:
    made = scheduler(short=1.0, middle=9.0)
    made.collection = [
        "tests/short.py::test_a",
        "tests/unknown.py::test_b",
        "tests/middle.py::test_c",
        "tests/middle.py::test_d",
    ]
    assert made._durations() == {
        "tests/short.py": 1.0,
        "tests/unknown.py": UNKNOWN_S,
        "tests/middle.py": 9.0,
    }
    given: list[str] = []
    made.workqueue = OrderedDict((made._split_scope(one), {one: False}) for one in made.collection)

    class Worker:
        def send_runtest_some(self, indices: list[int]) -> None:
            given.extend(made.collection[index] for index in indices)

    worker = Worker()
    made.assigned_work, made.registered_collections = {}, {worker: made.collection}
    for _ in range(3):
        made._assign_work_unit(worker)
    assert [one.partition("::")[0] for one in given] == [
        "tests/middle.py",
        "tests/unknown.py",
        "tests/short.py",
    ]


def test_what_is_kept_is_of_modules_that_there_are() -> None:
    kept: dict[str, float] = json.loads(DURATIONS.read_text())
    root = Path(__file__).parents[1]
    gone = [module for module in kept if not (root / module).exists()]
    # A module that is renamed loses what was kept of it. If most are gone the file is of another time.
    assert len(gone) < len(kept) / 2, gone
    assert all(seconds >= 0 for seconds in kept.values())
