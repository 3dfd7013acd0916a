"""Topologies by name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from equipoise.errors import SettingsError
from equipoise.lab.simulation import Cities, Lan, LinkSpec, Simulation, Sites, Star, matrix_from_file
from equipoise.lab.simulation.cities import CITIES, distance_km
from equipoise.lab.simulation.topology import TOPOLOGIES, topology_by_name
from simulation.core.parts import join


def test_every_topology_has_a_name() -> None:
    assert sorted(TOPOLOGIES) == ["cities", "lan", "matrix", "sites", "star"]
    assert isinstance(topology_by_name("lan"), Lan)
    with pytest.raises(SettingsError, match="unknown topology"):
        topology_by_name("torus")


def test_a_star_adds_both_access_lines_and_takes_the_slower() -> None:
    star = Star(
        {
            "phone": LinkSpec(latency_s=0.03, jitter_s=0.01, bandwidth_bytes_per_s=1e6, loss=0.01),
            "office": LinkSpec(latency_s=0.002, bandwidth_bytes_per_s=1e8),
        }
    )
    link = star.link("phone", "office")
    assert link.latency_s == pytest.approx(0.032)
    assert link.jitter_s == 0.01
    assert link.bandwidth_bytes_per_s == 1e6
    assert link.loss == 0.01
    assert star.link("phone", "unnamed").latency_s == pytest.approx(0.04)
    assert star.link("unnamed", "other").bandwidth_bytes_per_s is None


def test_sites_are_half_a_round_trip_apart_in_both_directions() -> None:
    sites = Sites({("eu", "us"): 0.09}, within=LinkSpec(latency_s=0.0001))
    assert sites.link("eu", "us").latency_s == sites.link("us", "eu").latency_s == 0.045
    assert sites.link("eu", "eu").latency_s == 0.0001
    with pytest.raises(SettingsError, match="no round-trip time"):
        sites.link("eu", "moon")


def test_cities_are_as_far_apart_as_an_atlas_says() -> None:
    assert distance_km("london", "new-york") == pytest.approx(5570, rel=0.01)
    assert distance_km("sydney", "london") == pytest.approx(16_990, rel=0.01)
    assert distance_km("tokyo", "tokyo") == 0
    assert len(CITIES) >= 40


def test_city_latencies_are_those_of_light_in_stretched_fibre() -> None:
    plain = Cities(stretch=1.0, access_s=0.0)
    assert plain.link("london", "new-york").latency_s == pytest.approx(5570 / 199_861, rel=0.01)
    # Measured round trips between these two are 70 to 76 ms.
    assert 2 * Cities(stretch=1.3).link("london", "new-york").latency_s == pytest.approx(0.0745, rel=0.05)
    with pytest.raises(SettingsError, match="no city"):
        plain.link("london", "atlantis")


def test_a_matrix_with_names_is_read_from_commas(tmp_path: Path) -> None:
    path = tmp_path / "rtt.csv"
    path.write_text("# milliseconds\n,a,b,c\na,0,10,20\nb,12,0,30\nc,20,-1,0\n")
    matrix = matrix_from_file(path, within=LinkSpec(latency_s=0.0001))
    assert matrix.link("a", "b").latency_s == pytest.approx(0.005)
    assert matrix.link("b", "a").latency_s == pytest.approx(0.006)
    assert matrix.link("a", "a").latency_s == 0.0001
    with pytest.raises(SettingsError, match="no latency"):
        matrix.link("c", "b")


def test_a_matrix_without_names_is_read_from_blanks(tmp_path: Path) -> None:
    path = tmp_path / "oneway.txt"
    path.write_text("0 1.5\n2.5 0   # asymmetric\n")
    matrix = matrix_from_file(path, is_round_trip=False)
    assert matrix.link("0", "1").latency_s == pytest.approx(0.0015)
    assert matrix.link("1", "0").latency_s == pytest.approx(0.0025)


@pytest.mark.parametrize("text", ["", "1 2\n3\n"])
def test_a_file_that_is_not_a_square_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(SettingsError):
        matrix_from_file(path)


def test_hosts_are_as_far_apart_as_their_places() -> None:
    async def main(sim: Simulation) -> None:
        near, far = await join(sim.host("a", place="eu"), sim.host("b", place="us"))
        before = sim.now
        near.transport.write(b"x")
        await asyncio.sleep(1)
        assert far.times[0] - before == pytest.approx(0.045)

    with Simulation(topology=Sites({("eu", "us"): 0.09})) as sim:
        sim.run(main(sim))
