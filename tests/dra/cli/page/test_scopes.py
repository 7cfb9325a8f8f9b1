"""A scope says which objects and views a user sees, and cuts everything else out of a snapshot."""

import msgspec
import pytest

from dra.cli.page.scopes import Scope
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.snapshot import (
    ControllerLease,
    ControllerPresence,
    ReferencedWorkload,
    Snapshot,
    UnreadResource,
)
from dra.kube.resources import CLAIMS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, SLICES
from tests.violations import for_each_case

EVERYTHING = frozenset(
    {
        *(each.label for each in (PODS, NODES, SLICES, RESERVATIONS, POD_MIGRATION_JOBS)),
        *("deviceclasses.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io", "namespaces", "jobs.batch"),
        *("devicetaintrules.resource.k8s.io", "poddisruptionbudgets.policy"),
    }
)


def scope(namespace=None, *, without=()):
    return Scope(namespace=namespace, granted=EVERYTHING - {each.label for each in without})


@for_each_case(
    [
        pytest.param(scope(), CLAIMS, "ml", True, id="all-claims"),
        pytest.param(scope("ml"), CLAIMS, "ml", True, id="claim-of-the-namespace"),
        pytest.param(scope("ml"), CLAIMS, "other", False, id="claim-of-another-namespace"),
        pytest.param(scope("ml"), PODS, "other", False, id="pod-of-another-namespace"),
        pytest.param(scope("ml", without=[PODS]), PODS, "ml", False, id="pod-without-rights"),
        pytest.param(scope("ml"), NODES, "", True, id="nodes-of-a-tenant-who-may-list-nodes"),
        pytest.param(scope("ml"), SLICES, "", False, id="slices-without-all-claims"),
        pytest.param(scope(), SLICES, "", True, id="slices"),
        pytest.param(scope("ml"), RESERVATIONS, "", True, id="reservations-of-a-tenant-who-may-list-reservations"),
    ]
)
def test_which_objects_a_scope_covers(found, resource, namespace, covered):
    assert found.covers(resource, namespace) is covered


@for_each_case(
    [
        pytest.param(scope(), set(), id="everything"),
        pytest.param(scope("ml"), {"devices", "nodes"}, id="one-namespace"),
        pytest.param(scope(without=[NODES]), {"nodes"}, id="no-nodes"),
        pytest.param(scope(without=[SLICES]), {"devices", "nodes"}, id="no-slices"),
        pytest.param(scope(without=[PODS]), {"pods"}, id="no-pods"),
        pytest.param(scope(without=[RESERVATIONS]), {"reservations"}, id="no-reservations"),
        pytest.param(scope(without=[POD_MIGRATION_JOBS]), {"migrations", "rounds"}, id="no-migrations"),
    ]
)
def test_which_views_are_hidden(found, views):
    assert found.hidden().keys() == views


def test_a_kind_that_is_not_served_is_not_hidden():
    assert scope(without=[RESERVATIONS]).hidden([RESERVATIONS]) == {}


def surroundings():
    """Return what the page reads, with objects of two namespaces."""
    objects = {
        kind: [{"metadata": {"namespace": each, "name": f"{each}-{kind}"}} for each in ("ml", "other")]
        for kind in ("templates", "budgets")
    }
    found = msgspec.convert({**objects, "classes": [{"metadata": {"name": "gpu"}}]}, Snapshot)
    workloads = tuple(
        ReferencedWorkload(
            resource="jobs", group="batch", namespace=each, name=f"{each}-job", phase=WorkloadPhase.FINISHED
        )
        for each in ("ml", "other")
    )
    lease = ControllerLease(
        presence=ControllerPresence.RUNNING, name="other/lease", holder="other-controller-7d9f", seconds=2
    )
    enabled = {"ml": True, "other": True}
    return msgspec.structs.replace(
        found, workloads=workloads, leader=lease, descheduler=lease, enabled_namespaces=enabled
    )


def test_the_surroundings_of_a_tenant_name_nothing_of_another_namespace():
    cut = scope("ml").cut(surroundings(), ())
    text = msgspec.json.encode(cut).decode().replace("of other namespaces", "")
    assert "other" not in text
    assert (len(cut.templates), len(cut.budgets), len(cut.workloads), len(cut.classes)) == (1, 1, 1, 1)
    assert cut.enabled_namespaces == {"ml": True}
    assert cut.leader.presence is ControllerPresence.RUNNING


def test_a_workload_whose_kind_the_user_may_not_list_has_no_state():
    found = Scope(namespace="ml", granted=frozenset({"pods"})).cut(surroundings(), ())
    [workload] = found.workloads
    assert workload.phase is WorkloadPhase.FORBIDDEN
    assert "jobs.batch" in {each.resource for each in found.gaps}
    assert (found.templates, found.budgets, found.classes, found.enabled_namespaces) == ((), (), (), {})


@pytest.mark.parametrize(
    ("found", "gaps"),
    [
        pytest.param(scope("ml"), {"pods", "jobs.batch"}, id="one-namespace"),
        pytest.param(scope(), {"pods", "jobs.batch", "trials.other.example"}, id="all-namespaces"),
    ],
)
def test_a_kind_that_only_another_namespace_names_is_no_gap_of_a_tenant(found, gaps):
    seen = surroundings()
    trial = ReferencedWorkload(
        resource="trials", group="other.example", namespace="other", name="t", phase=WorkloadPhase.FORBIDDEN
    )
    seen = msgspec.structs.replace(seen, workloads=(*seen.workloads, trial))
    own = [UnreadResource(resource=each, why="unread") for each in ("pods", "jobs.batch", "trials.other.example")]
    cut = found.cut(seen, own)
    assert {each.resource for each in cut.gaps} & {each.resource for each in own} == gaps
