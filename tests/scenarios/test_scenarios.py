"""Scenarios are consistent values: names, users, limits and checkers exist."""

from __future__ import annotations

import dataclasses

import pytest

from equipoise.client import ClientSettings
from equipoise.errors import SettingsError
from equipoise.hub import Limits
from equipoise.hub.cluster.standstill import PATIENCE_S
from equipoise.lab.scenarios import (
    SCENARIOS,
    Client,
    ClusterScenario,
    Dialect,
    FaultKind,
    Scenario,
    Workload,
    scenario_by_name,
)
from equipoise.lab.simulation.checkers import CHECKERS, needless_gap
from equipoise.lab.workload import hurried


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return scenario_by_name(request.param)


def test_a_scenario_is_found_by_its_own_name(scenario: Scenario) -> None:
    assert SCENARIOS[scenario.name] is scenario
    assert scenario.summary


def test_an_unknown_name_is_an_error_that_lists_the_cases() -> None:
    with pytest.raises(SettingsError, match="hub-small"):
        scenario_by_name("hub-imaginary")


def test_clients_have_unique_names_without_blanks(scenario: Scenario) -> None:
    names = [client.name for client in scenario.workload.each()]
    assert len(names) == len(set(names))
    assert not {"hub", "stranger", "observer"} & set(names)
    assert not any(" " in name for name in names)


def test_plain_clients_only_subscribe_and_once(scenario: Scenario) -> None:
    for client in scenario.workload.clients:
        if client.dialect not in (Dialect.SMART, Dialect.ROVING):
            assert not client.publishes
            assert len(client.subscribes) == 1


def test_what_is_expected_can_be_checked(scenario: Scenario) -> None:
    assert set(scenario.expectation.properties) <= set(CHECKERS)


def test_faults_name_clients_that_exist_and_rules_that_can_change(scenario: Scenario) -> None:
    names = {client.name for client in scenario.workload.each()}
    for fault in scenario.faults:
        assert set(fault.clients) <= names
        assert fault.times[0] <= fault.times[1] and fault.lasts_s[0] <= fault.lasts_s[1]
        if fault.kind is FaultKind.RULES:
            assert scenario.access is not None and scenario.access.alternatives


def test_every_login_is_a_user(scenario: Scenario) -> None:
    users = {grants.user for grants in scenario.access.rules} if scenario.access else {""}
    assert {client.user for client in scenario.workload.clients} <= users


def test_limits_and_settings_are_those_of_hub_and_client(scenario: Scenario) -> None:
    assert set(scenario.hub_limits) <= set(Limits.__struct_fields__)
    assert set(scenario.client_settings) <= set(ClientSettings.__struct_fields__)


def test_clients_of_a_quiet_world_outwait_a_hub_that_has_stood_still(scenario: Scenario) -> None:
    """As they do by default: one that gives its hub up while that holds it loses its connection, and gets a gap."""
    if not isinstance(scenario, ClusterScenario):
        return
    if needless_gap.NAME in scenario.expectation.properties and (scenario.pauses[1] or scenario.zombies[1]):
        for settings in (ClientSettings(), hurried(**scenario.client_settings)):
            assert settings.ping_interval_s * settings.pings_unanswered_max > PATIENCE_S


def test_a_scenario_cannot_be_changed(scenario: Scenario) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        scenario.name = "another"  # type: ignore[misc]  # that is the point


def test_copies_of_a_client_are_numbered() -> None:
    workload = Workload(clients=(Client(name="one"), Client(name="many", copies=3)))
    assert [client.name for client in workload.each()] == ["one", "many-1", "many-2", "many-3"]
