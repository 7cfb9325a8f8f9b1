"""The rules of PodDisruptionBudgets."""

import pytest

from tests.localplane.kinds.registry_client import RegistryClient, refused
from tests.localplane.kinds.test_evictions import budget

POLICY = "spec.unhealthyPodEvictionPolicy"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minAvailable": "50%"}, [], id="a percentage"),
        pytest.param(
            {"minAvailable": -1},
            ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
            id="negative",
        ),
        pytest.param(
            {"minAvailable": "101%"},
            ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
            id="more than all",
        ),
        pytest.param(
            {"unhealthyPodEvictionPolicy": "Never"},
            [f'{POLICY}: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"'],
            id="unknown policy",
        ),
    ],
)
def test_a_spec_out_of_range_is_refused(spec, expected):
    assert refused(RegistryClient().create, budget(**spec)) == expected


def test_both_limits_are_refused():
    (found,) = refused(RegistryClient().create, budget(maxUnavailable=1))
    assert found.startswith("spec: Invalid value: {")
    assert found.endswith(": minAvailable and maxUnavailable cannot be both set")


def test_a_new_budget_allows_nothing_whatever_its_creator_says():
    created = RegistryClient().create({**budget(), "status": {"disruptionsAllowed": 5}})
    assert created["status"] == {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }


def test_a_status_update_changes_neither_spec_nor_generation():
    client = RegistryClient()
    client.create(budget())

    def mutate(obj):
        obj["spec"]["minAvailable"] = 5
        obj["status"]["currentHealthy"] = 3

    changed = client.update(budget(), mutate, "status")
    assert changed["spec"]["minAvailable"] == 2
    assert changed["metadata"]["generation"] == 1
    assert changed["status"]["currentHealthy"] == 3


def test_negative_counts_are_refused():
    client = RegistryClient()
    client.create(budget())
    found = refused(client.update, budget(), lambda obj: obj["status"].update(expectedPods=-1), "status")
    assert found == ["status.expectedPods: Invalid value: -1: must be greater than or equal to 0"]


def test_kubectl_shows_limits_and_allowed_disruptions():
    client = RegistryClient()
    client.create(budget())
    cells = client.table_cells(budget())
    assert (cells["Min Available"], cells["Max Unavailable"], cells["Allowed Disruptions"]) == ("2", "N/A", 0)
