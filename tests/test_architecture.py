"""The shape of the package: imports point down, pure folders touch nothing, nothing is exported or kept by accident.

The layers are those of the folder map: what is higher may use what is lower, and folders of one layer that meet only
in the store and on the wire do not know each other.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from equipoise.cli.main import COMMANDS
from support.sources import tree_of

SRC = Path(__file__).resolve().parents[1] / "src"
ROOT = SRC / "equipoise"

# From the top down. A folder that is not here has to be given its place.
LAYERS: list[frozenset[str]] = [
    frozenset({"cli"}),
    # The laboratory puts hubs, pipeline and policies together; only the commands that run it import it.
    frozenset({"lab"}),
    frozenset({"pipeline", "local", "web", "doctor", "profile"}),
    frozenset({"gateway"}),
    frozenset({"hub", "client", "control", "bookie"}),
    # Ledgers over bookies: for hubs, which write them, and for bookies, which repair each other.
    frozenset({"ledger_client"}),
    frozenset({"store"}),
    frozenset({"disk"}),
    # What is below all planes and yet not pure: it meets the kernel and the loop.
    frozenset({"processes", "clock"}),
    frozenset(
        {
            "access",
            "content",
            "coordinates",
            "ledger",
            "limits",
            "log",
            "model",
            "plan",
            "resp",
            "stream",
            "telemetry",
            "view",
        }
    ),
    frozenset({"errors", "version"}),
]
# Inside the laboratory, from the top down.
LAB_LAYERS: list[frozenset[str]] = [
    frozenset({"experiments"}),
    frozenset({"simulation", "bench", "demo"}),
    frozenset({"workload"}),
    frozenset({"scenarios"}),
    frozenset({"task_pool"}),
]
# Folders, and modules beside folders, that decide and touch nothing: no loop, socket, thread, clock or chance.
PURE = frozenset(
    {
        *(LAYERS[-2] | LAYERS[-1]),
        "hub/access",
        "hub/cluster",
        "hub/commands",
        "hub/content",
        "hub/core",
        "hub/data",
        "hub/locations",
        "hub/logs",
        "hub/settings",
        "hub/telemetry",
        "lab/scenarios",
    }
)
# The shell inside them, file by file: these meet the loop, or are told the time by the kernel.
SHELL_FILES = {
    "hub/access/login": "checks secrets in threads beside the loop",
    "hub/cluster/link/dialer": "opens connections to other hubs and keeps them",
    "hub/telemetry/prometheus_endpoint": "serves HTTP",
}
# Folders of one layer may use each other only where none of them waits, and only in one direction.
STRANGERS = [layer for layer in LAYERS[:-2] if len(layer) > 1]

# What makes code depend on when and where it runs.
WORLD = frozenset(
    {
        "asyncio",
        "socket",
        "ssl",
        "uvloop",
        "select",
        "selectors",
        "threading",
        "subprocess",
        "signal",
        "kazoo",
        "pyspark",
    }
)
CHANCE = frozenset({"time", "random", "secrets", "datetime", "uuid"})
# A command is loaded by its name.
ENTRY_POINTS = frozenset({"equipoise.cli.main", *(f"equipoise.cli.{name}" for name in COMMANDS)})

# Laid for what comes next, and used by tests alone so far: durable topics write and recover ledgers with them.
FOUNDATIONS = frozenset(
    {
        "equipoise.ledger.memory",
    }
)

LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# The most modules that may know each other in a circle, imports for type checkers counted. May only shrink.
CIRCLE_MODULES_MAX = 6
# A module shorter than this that one other module imports is a part of that one, unless it is listed here.
SMALL_LINES = 60
SMALL_MODULES = {
    "limits/remainders": "pure arithmetic with a property of its own",
    "hub/logs/log_owner": "which hub answers while a log is opened; the log itself has no room for it",
    "hub/logs/opened_log": "what a log is opened with; the log itself has no room for it",
    "cli/support/metrics_page": "a page of the generated reference: one file per page",
    "cli/support/units": "how numbers are typed and shown: for every command that takes one",
    "content/balancing/session_loads": "how sessions turn out, apart from how they are agreed on: an idea of its own",
    "web/content_status": "one file for each kind of status",
    "hub/cluster/add_tokens": "entries of logs do not wait for tokens as messages do: a rule of its own",
    "hub/cluster/log_lookup": "commands on logs that may not exist; the calls themselves have no room for it",
    "hub/cluster/redirect_pace": "a rule of its own, tested without a hub: at which rate redirects are sent",
    "hub/cluster/loss_disconnects": "what a setting adds for plain clients, apart from gaps and from the barrier",
    "hub/commands/content": "one file per group of commands",
    "hub/commands/where": "one file per group of commands",
    "hub/membership/join": "to be merged",
    "hub/commands/dispatch": "given to HubCore, which must not know it",
    "hub/shell/descriptors": "to be merged",
    "lab/demo/pace": "shown by its package",
    "lab/scenarios/excused": "the list of seeds that are known to fail",
    "lab/scenarios/demo": "one scenario per file",
    "lab/scenarios/registry": "the list of scenarios, shown by its package",
    "lab/simulation/cluster/hub_settings": "values: how short the waits of hubs are in a simulated cluster",
    "lab/simulation/cluster/old_release": "how an earlier release behaves: an idea of its own",
    "lab/simulation/outside_calls": "what the simulation refuses: an idea of its own",
    "lab/workload/cast": "shown by its package",
    "log/numbered": "messages that their publisher numbers, apart from Redis's commands: an idea of its own",
    "processes/identity": "shown by its package",
    "profile/advice": "what the profile advises, apart from how it is taken",
    "processes/machine": "what the machine allows, read from its files: for any process",
}


@cache
def modules() -> tuple[Path, ...]:
    return tuple(sorted(ROOT.rglob("*.py")))


def dotted(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports_of(path: Path) -> tuple[tuple[str, str | None], ...]:
    """(module, name or None) of every import, those for type checkers included.

    Kept, because a walk through the trees of all modules takes seconds.
    """
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found += ((node.module or "", alias.name) for alias in node.names)
    return tuple(found)


def folder_of(module: str) -> str | None:
    """The folder, or the module beside them, that a module of ours is in; None of the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def layer_of(folder: str) -> int:
    for depth, layer in enumerate(LAYERS):
        if folder in layer:
            return depth
    raise AssertionError(f"the folder {folder!r} has no place among the layers")


def our_imports() -> Iterator[tuple[str, str, Path]]:
    """(folder, folder it imports, file) wherever one folder uses another."""
    for path in modules():
        folder = folder_of(dotted(path))
        if folder is None:
            continue
        for module, _ in imports_of(path):
            if module.startswith("equipoise.") and folder_of(module) != folder:
                yield folder, str(folder_of(module)), path


def face_names(path: Path) -> Iterator[str]:
    """What a file uses of the package itself, which shows the client to the world."""
    yield from (str(name) for module, name in imports_of(path) if module == "equipoise" and name is not None)
    is_bound = any(
        name is None and f"{module}.".startswith("equipoise.") for module, name in imports_of(path)
    )
    for node in ast.walk(tree_of(path)) if is_bound else ():
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "equipoise"
        ):
            yield node.attr


def test_every_folder_has_its_layer() -> None:
    for path in modules():
        folder = folder_of(dotted(path))
        if folder is not None:
            layer_of(folder)


def test_imports_point_down() -> None:
    upward = [
        f"{path.relative_to(SRC)} imports {other}"
        for folder, other, path in our_imports()
        if layer_of(folder) > layer_of(other)
    ]
    assert upward == []


def test_folders_that_meet_on_the_wire_do_not_know_each_other() -> None:
    acquainted = [
        f"{path.relative_to(SRC)} imports {other}"
        for folder, other, path in our_imports()
        if any({folder, other} <= layer for layer in STRANGERS)
    ]
    assert acquainted == []


def lab_imports() -> Iterator[tuple[str, str, Path]]:
    """(folder of the laboratory, folder of it that it imports, file)."""
    for path in modules():
        if folder_of(dotted(path)) == "lab" and len(dotted(path).split(".")) > 3:
            folder = dotted(path).split(".")[2]
            for module, _ in imports_of(path):
                if module.startswith("equipoise.lab.") and module.split(".")[2] != folder:
                    yield folder, module.split(".")[2], path


def test_imports_point_down_inside_the_laboratory() -> None:
    depth = {folder: at for at, layer in enumerate(LAB_LAYERS) for folder in layer}
    assert [
        f"{path} imports {other}" for folder, other, path in lab_imports() if depth[folder] >= depth[other]
    ] == []


def test_no_two_folders_import_each_other() -> None:
    pairs = {(folder, other) for folder, other, _ in our_imports()}
    assert {pair for pair in pairs if pair[::-1] in pairs} == set()


def test_nothing_below_the_client_uses_its_face() -> None:
    for path in modules():
        folder = folder_of(dotted(path))
        if folder is not None and layer_of(folder) >= layer_of("client"):
            assert set(face_names(path)) <= {"__version__"}, path


def world_imports(path: Path, forbidden: frozenset[str]) -> list[str]:
    return sorted(
        {
            f"{path.relative_to(SRC)} imports {module}"
            for module, _ in imports_of(path)
            if module.partition(".")[0] in forbidden
        }
    )


def place_of(path: Path) -> str:
    """The module as a path below the package: `hub/data/topics`."""
    return path.relative_to(ROOT).with_suffix("").as_posix()


def is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder}/")


def test_pure_folders_touch_neither_the_world_nor_chance() -> None:
    pure = [
        path
        for path in modules()
        if any(is_below(place_of(path), folder) for folder in PURE) and place_of(path) not in SHELL_FILES
    ]
    assert len(pure) > 100
    assert [line for path in pure for line in world_imports(path, WORLD | CHANCE)] == []


def test_every_pure_folder_and_every_shell_file_is_there() -> None:
    places = {place_of(path) for path in modules()}
    # Parts that are still to come have their place among the layers already.
    to_come = {"content", "limits"}
    assert [folder for folder in PURE - to_come if not any(is_below(place, folder) for place in places)] == []
    needless = [file for file in SHELL_FILES if not world_imports(ROOT / f"{file}.py", WORLD | CHANCE)]
    assert needless == []


def graph() -> dict[str, set[str]]:
    """By module, the modules it imports, for type checkers or for good; a name of a package means the package."""
    known = {dotted(path) for path in modules()}
    edges: dict[str, set[str]] = {module: set() for module in known}
    for path in modules():
        for module, name in imports_of(path):
            target = next((each for each in (f"{module}.{name}", module) if each in known), None)
            if target is not None and target != dotted(path):
                edges[dotted(path)].add(target)
    return edges


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, the largest first (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in edges[module]:
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            at = stack.index(module)
            component = sorted(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for module in edges:
        if module not in order:
            visit(module)
    return sorted(found, key=len, reverse=True)


def test_circles_are_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": {"d"}, "f": {"a", "d"}}
    assert circles(edges) == [["a", "b", "c"], ["d", "e"]]


def test_no_large_circle_of_modules_know_each_other() -> None:
    """What must react to everything returns effects, or is called through a small Protocol that its user owns."""
    largest = circles(graph())[0]
    assert len(largest) <= CIRCLE_MODULES_MAX, largest


def test_small_modules_with_one_importer_are_listed() -> None:
    importers: dict[str, set[str]] = {}
    for module, targets in graph().items():
        for target in targets:
            importers.setdefault(target, set()).add(module)
    small = {
        place_of(path)
        for path in modules()
        if path.name != "__init__.py"
        and len(path.read_text().splitlines()) < SMALL_LINES
        and len(importers.get(dotted(path), ())) == 1
    }
    assert small - SMALL_MODULES.keys() == set(), "merge it with its importer, or list it with a reason"


def own_names(path: Path) -> set[str]:
    """What an `__init__.py` takes from its own modules, for type checkers or for good, and what it defines."""
    package = dotted(path)
    names = {
        str(name)
        for module, name in imports_of(path)
        if module.startswith(f"{package}.") or (module == package and not is_module(path.parent / str(name)))
    }
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


@pytest.mark.parametrize("path", [path for path in modules() if path.name == "__init__.py"], ids=dotted)
def test_a_package_exports_exactly_what_it_lists(path: Path) -> None:
    package = importlib.import_module(dotted(path))
    listed = list(getattr(package, "__all__", []))
    assert len(set(listed)) == len(listed)
    # A module of its own may be listed, or only used.
    exported = {name for name in listed if not is_module(path.parent / name)}
    assert exported - {"__version__"} == own_names(path)
    for name in listed:
        assert getattr(package, name) is not None


def test_lists_of_exports_name_what_is_there() -> None:
    for path in modules():
        if path.name == "__init__.py":
            continue
        bound = {
            target.id
            for node in tree_of(path).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if "__all__" in bound:
            module = importlib.import_module(dotted(path))
            missing = [name for name in module.__all__ if not hasattr(module, name)]
            assert missing == [], path


def test_there_is_no_module_that_nothing_imports() -> None:
    imported: set[str] = set()
    # Benchmarks run what they import.
    for path in (*modules(), *(SRC.parent / "benchmarks").rglob("*.py")):
        for module, name in imports_of(path):
            imported.add(module)
            if name is not None:
                imported.add(f"{module}.{name}")
    kept = {dotted(path) for path in modules() if path.name != "__init__.py"}
    assert kept - imported - ENTRY_POINTS - FOUNDATIONS == set()
    assert not FOUNDATIONS & imported, "they are used by now: take them off the list"


def test_files_and_functions_tell_one_story_each() -> None:
    long_files = {
        str(path.relative_to(SRC)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert long_files == {}
    long_functions = {
        f"{path.relative_to(SRC)}:{node.name}": lines
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long_functions == {}


def test_commands_load_only_what_they_need() -> None:
    """A hub's memory and start are promises: nothing of planning, pages or Spark is loaded along."""
    heavy = ("numpy", "pyarrow", "pyspark", "starlette", "uvicorn", "matplotlib", "kazoo")
    text = f"import sys, equipoise.cli.main; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout.strip() == "[]"
