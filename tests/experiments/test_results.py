"""Results of experiments as JSON, figures and Markdown."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path

import msgspec
import pytest

from equipoise.errors import SettingsError
from equipoise.lab.experiments import (
    EXPERIMENTS,
    Claim,
    Experiment,
    Figure,
    Line,
    Marks,
    Panel,
    Progress,
    Size,
    experiments_by_name,
    run,
    silent,
    to_object,
)
from equipoise.lab.experiments.figures import draw
from equipoise.lab.experiments.report import MARKER, keep, kept_paths, page_section, splice
from equipoise.lab.experiments.result import Result, decode, encode

PNG = b"\x89PNG\r\n\x1a\n"
FIGURE = Figure(
    name="toy",
    title="A toy",
    x_label="time, s",
    panels=(
        Panel(
            title="players",
            y_label="players",
            lines=(
                Line(label="one", x=(0.0, 1.0, 2.0), y=(1.0, 2.0, 3.0)),
                Line(
                    label="servers",
                    x=(0.0, 1.0, 2.0),
                    y=(1.0, 1.0, 2.0),
                    right_label="servers",
                    is_stepped=True,
                ),
            ),
            marks=(Marks(label="plan", x=(1.5,)),),
        ),
        Panel(
            title="response",
            y_label="ms",
            lines=(Line(label="one", x=(0.0, 1.0, 2.0), y=(70.0, nan, 5_000.0)),),
            level=150.0,
            level_label="limit",
            is_log=True,
        ),
    ),
)
CLAIMS = (
    Claim(claim="it grows", paper="×2", ours="×3", holds=True),
    Claim(claim="it | shrinks", paper="yes", ours="no", holds=False),
)


def toy_run(world: str, seed: int, progress: Progress) -> tuple[str, int]:
    progress("half of it", 0.5)
    return world, seed


def toy(name: str = "toy-1") -> Experiment[str, tuple[str, int]]:
    return Experiment(
        name=name,
        source="A paper, V",
        summary="Something grows.",
        worlds={Size.FULL: "large", Size.QUICK: "small"},
        world=toy_run,
        claims=lambda seen: CLAIMS,
        figures=(lambda seen: FIGURE,),
        parameters=lambda seen: (("world", seen[0]), ("seed", str(seen[1]))),
        notes=lambda seen: ("A note.",),
    )


def result_of(name: str = "toy-1") -> Result:
    return run(toy(name), Size.QUICK, 7, silent)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("toy-1", "toy-2"):
        monkeypatch.setitem(EXPERIMENTS, name, toy(name))


def test_the_object_has_experiment_size_claims_and_series() -> None:
    shown = json.loads(json.dumps(to_object(result_of()), allow_nan=False))
    assert list(shown)[:4] == ["experiment", "size", "claims", "series"]
    assert shown["experiment"] == "toy-1"
    assert shown["size"] == "quick"
    assert shown["seed"] == 7
    assert [set(claim) for claim in shown["claims"]] == [{"claim", "paper", "ours", "holds"}] * 2
    assert [claim["holds"] for claim in shown["claims"]] == [True, False]
    assert shown["series"]["toy"]["panels"][0]["lines"]["one"] == {"x": [0, 1, 2], "y": [1, 2, 3]}


def test_a_point_that_was_not_measured_is_null() -> None:
    shown = to_object(result_of())
    assert shown["series"]["toy"]["panels"][1]["lines"]["one"]["y"] == [70.0, None, 5_000.0]


def test_a_result_holds_only_if_all_its_claims_do() -> None:
    assert not result_of().holds


def test_a_stored_result_reads_back_unchanged() -> None:
    result = result_of()
    again = decode(encode(result))
    assert again.claims == result.claims
    assert again.parameters == result.parameters
    # NaN is kept as null.
    assert again.figures[0].panels[1].lines[0].y == (70.0, None, 5_000.0)


def test_a_figure_is_drawn_as_png_and_the_same_numbers_give_the_same_file(tmp_path: Path) -> None:
    first = draw(FIGURE, tmp_path / "a")
    second = draw(FIGURE, tmp_path / "b")
    assert first.name == "toy.png"
    assert first.read_bytes().startswith(PNG)
    assert first.read_bytes() == second.read_bytes()


def test_a_section_has_claims_verdicts_and_the_command() -> None:
    section = page_section(
        result_of(), title="toy-1: A paper", summary="Something grows.", figures=["toy/toy.png"]
    )
    assert "| it grows | ×2 | ×3 | holds |" in section
    assert "| it \\| shrinks | yes | no | falls short |" in section
    assert "![toy-1](toy/toy.png)" in section
    assert "- A note." in section
    assert "equipoise reproduce toy-1 --quick --seed 7" in section


def test_text_above_the_marker_stays() -> None:
    page = splice("# Title\n\nRead this first.\n", ["## one\n"])
    again = splice(page, ["## two\n"])
    assert again.startswith("# Title\n\nRead this first.\n")
    assert again.count(MARKER) == 1
    assert "## one" not in again
    assert "## two" in again


@pytest.mark.usefixtures("registered")
def test_keeping_writes_page_figures_and_json_and_leaves_the_other_experiments_on_the_page(
    tmp_path: Path,
) -> None:
    keep(result_of("toy-2"), tmp_path)
    page = keep(result_of("toy-1"), tmp_path)
    assert page == tmp_path / "toy.md"
    text = page.read_text()
    assert text.index("## toy-1") < text.index("## toy-2")
    assert (tmp_path / "toy" / "toy.png").read_bytes().startswith(PNG)
    assert decode((tmp_path / "toy" / "toy-2.json").read_bytes()).experiment == "toy-2"


@pytest.mark.usefixtures("registered")
def test_a_full_result_has_a_file_figures_and_a_section_beside_the_quick_one(tmp_path: Path) -> None:
    quick = result_of("toy-1")
    keep(quick, tmp_path)
    full = msgspec.structs.replace(quick, size=Size.FULL, took_s=99.0)
    for _ in range(2):
        page = keep(full, tmp_path)
    files = {path.name for path in (tmp_path / "toy").iterdir()}
    figures = [figure.name for figure in quick.figures]
    assert files == {
        "toy-1.json",
        "toy-1-full.json",
        *(f"{name}{size}.png" for name in figures for size in ("", "-full")),
    }
    assert kept_paths(tmp_path / "toy", "toy-1") == [
        tmp_path / "toy" / "toy-1.json",
        tmp_path / "toy" / "toy-1-full.json",
    ]
    text = page.read_text()
    assert text.index("## toy-1: A paper, V\n") < text.index("## toy-1: A paper, V, full size\n")
    assert f"![toy-1](toy/{figures[0]}-full.png)" in text
    # Without a quick one it takes its place.
    assert keep(full, tmp_path / "alone").exists()
    assert [path.name for path in kept_paths(tmp_path / "alone" / "toy", "toy-1")] == ["toy-1.json"]


@pytest.mark.usefixtures("registered")
def test_an_unwritable_folder_has_a_clear_error_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingsError, match="Give --out a folder"):
        keep(result_of(), tmp_path / "file")


def test_experiments_are_found_by_name_and_by_paper() -> None:
    assert [experiment.name for experiment in experiments_by_name("dynamoth-1a")] == ["dynamoth-1a"]
    assert len(experiments_by_name("dynamoth")) >= 2
    with pytest.raises(SettingsError, match="known experiments: dynamoth-1a"):
        experiments_by_name("dynamoth-9")
