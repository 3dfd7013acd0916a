"""Tasks that wait until a file says go, run on a Spark cluster: `python -m support.waiting_tasks URL FOLDER COUNT`.

Every start of a task leaves a file with the process that runs it, so that a test sees which tasks run, where, and how
often each was started. The results are printed as one JSON list.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

from equipoise.lab.task_pool import task_pool

_PATIENCE_S = 200.0


def square(number: int, folder: str) -> int:
    place = Path(folder)
    (place / f"started-{number}-{os.getpid()}-{time.time_ns()}").touch()
    deadline = time.monotonic() + _PATIENCE_S
    while not (place / "go").exists():
        assert time.monotonic() < deadline, "the test did not release the task"
        time.sleep(0.01)
    return number * number


def main(url: str, folder: str, count: int) -> None:
    with task_pool(master=url) as pool:
        found = sorted(pool.run(partial(square, folder=folder), range(count)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
