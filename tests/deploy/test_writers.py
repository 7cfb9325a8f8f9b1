"""Who may change and delete Reservations and PodMigrationJobs: who may create, or evict, the pods behind them.

Both kinds are cluster-scoped. Whoever might write any took over the owners of another team's Reservation.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.admission_requests import CONTROLLER, EXTENDER, Json, asked, changed
from tests.deploy.judging import judge, policy
from tests.dra.api.migration import manifests as migrations
from tests.dra.api.reservations.manifests import manifest
from tests.violations import for_each_case

RESERVATIONS = policy("reservations/admission.yaml", "reservation-writers.reserve.dra")
JOBS = policy("descheduler/admission.yaml", "migration-writers.reserve.dra")

MALLORY = "system:serviceaccount:evil:mallory"
MAY_CREATE, MAY_DELETE = "create pods in victim", "delete pods in victim"
MAY_MIGRATE = "migrate podmigrationjobs.scheduling.koordinator.sh in *"
COLLECTOR = ("delete pods in *",)
EVIL = ("create pods in evil", "delete pods in evil", "create pods/eviction in evil")
UID = "7b2a8a1c-2c6e-4a5b-8f65-0b6b3d1f4a10"
OF_A_JOB = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "PodMigrationJob",
    "name": "j",
    "uid": UID,
    "controller": True,
}


def reservation(**paths: Any) -> Json:
    made = manifest()
    made["metadata"] |= {"labels": {"app": "a"}, "annotations": {"a": "b"}}
    made["spec"]["template"]["metadata"] = {"namespace": "victim"}
    return changed(made, **paths)


THIEVES = [{"object": {"namespace": "evil", "name": "thief"}}]
CHANGES = [
    pytest.param({"spec__owners": THIEVES}, id="owners"),
    pytest.param({"spec__ttl": "0s"}, id="lifetime"),
    pytest.param({"spec__taints": [{"key": "a", "effect": "NoSchedule"}]}, id="taints"),
    pytest.param({"spec__template__metadata__namespace": "evil"}, id="moves-it-away"),
    pytest.param({"metadata__labels": {"koordinator.sh/priority": "1"}}, id="labels"),
    pytest.param({"metadata__annotations": {}}, id="annotations"),
    pytest.param({"metadata__finalizers": ["evil.example.com/kept"]}, id="finalizer"),
    pytest.param({"metadata__ownerReferences": [{"kind": "Pod", "uid": "u"}]}, id="owner-that-is-gone"),
]


def write(old: Json | None, new: Json | None, *rights: str, user: str = MALLORY) -> tuple[bool, str]:
    operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    return judge(RESERVATIONS, asked(operation, user=user), obj=new, old=old, rights=rights)


@for_each_case(CHANGES)
def test_a_reservation_is_changed_by_those_who_may_create_its_placeholder(changes):
    old, new = reservation(), reservation(**changes)
    passed, said = write(old, new, *EVIL)
    assert not passed
    assert said.startswith("reservation demo: its placeholder is a pod in namespace victim")
    assert f"where {MALLORY} may not create pods; to change it takes that right" in said
    assert write(old, new, MAY_CREATE, "create pods in evil") == (True, "")


def test_a_reservation_is_moved_by_those_who_may_create_pods_in_both_places():
    old, new = reservation(), reservation(spec__template__metadata__namespace="evil")
    assert not write(old, new, MAY_CREATE)[0]
    assert not write(new, old, MAY_CREATE)[0]
    assert "in namespace victim, and would be one in namespace evil, where" in write(old, new, *EVIL)[1]


@pytest.mark.parametrize(
    ("rights", "passes"),
    [
        pytest.param(EVIL, False, id="of-another-namespace"),
        pytest.param((MAY_CREATE,), True, id="who-may-create"),
        pytest.param((MAY_DELETE,), True, id="who-may-delete"),
        pytest.param(COLLECTOR, True, id="garbage-collector"),
        pytest.param((MAY_MIGRATE,), True, id="descheduler"),
    ],
)
def test_a_reservation_is_deleted_by_those_who_may_end_its_placeholder(rights, passes):
    passed, said = write(reservation(), None, *rights)
    assert passed is passes
    assert passes or "to delete it takes that right" in said


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"metadata__finalizers": ["foregroundDeletion"]}, id="foreground"),
        pytest.param({"metadata__ownerReferences": []}, id="orphans"),
        pytest.param({}, id="rewrites"),
    ],
)
def test_the_garbage_collector_cleans_up(changes):
    old = reservation(metadata__name=UID, metadata__ownerReferences=[OF_A_JOB])
    new = changed(old, **changes)
    assert write(old, new, *COLLECTOR) == (True, "")
    assert write(old, changed(new, spec__ttl="0s"), *COLLECTOR)[0] is False


def test_a_rewrite_that_changes_nothing_takes_no_right():
    """Of storage versions, for example; managed fields may change."""
    assert write(reservation(), reservation(metadata__managedFields=[{}], metadata__generation=2)) == (True, "")


@pytest.mark.parametrize("namespace", ["", None], ids=["empty", "absent"])
def test_without_a_namespace_it_is_default(namespace):
    old = reservation(spec__template__metadata__namespace=namespace)
    assert not write(old, None, MAY_CREATE)[0]
    assert write(old, None, "create pods in default") == (True, "")
    named = reservation(spec__template__metadata=None, spec__template__namespace="victim")
    assert write(named, None, MAY_CREATE) == (True, "")


def test_the_extender_is_limited_by_a_policy_of_its_own():
    marked = reservation(metadata__annotations={"a": "b", "reserve.dra/placed-over": "u"})
    assert write(reservation(), marked, user=EXTENDER) == (True, "")
    assert not write(reservation(), marked, user=CONTROLLER)[0]


@pytest.mark.parametrize(
    ("old", "new", "rights", "passes"),
    [
        pytest.param(None, reservation(metadata__name=UID), (MAY_CREATE,), False, id="takes-the-name"),
        pytest.param(
            None, reservation(metadata__ownerReferences=[OF_A_JOB]), (MAY_CREATE,), False, id="claims-to-be-of-a-job"
        ),
        pytest.param(
            reservation(), reservation(metadata__ownerReferences=[OF_A_JOB]), (MAY_CREATE,), False, id="claims-it-later"
        ),
        pytest.param(
            None,
            reservation(metadata__name=UID, metadata__ownerReferences=[OF_A_JOB]),
            (MAY_MIGRATE,),
            True,
            id="makes",
        ),
        pytest.param(None, reservation(), (MAY_CREATE,), True, id="another-name"),
        pytest.param(
            reservation(metadata__name=UID, metadata__ownerReferences=[OF_A_JOB]),
            reservation(metadata__name=UID, metadata__ownerReferences=[OF_A_JOB], metadata__labels={}),
            (MAY_CREATE,),
            True,
            id="labels-one-that-is-there",
        ),
    ],
)
def test_the_names_and_controllers_of_migrations_are_for_deschedulers(old, new, rights, passes):
    passed, said = write(old, new, *rights)
    assert passed is passes
    assert passes or "are for the Reservations of migrations" in said


def job(**paths: Any) -> Json:
    made = migrations.manifest()
    made["spec"]["podRef"]["namespace"] = "victim"
    return changed(made, **paths)


@pytest.mark.parametrize(
    ("new", "text"),
    [
        pytest.param(None, "to delete the job takes", id="deletes"),
        pytest.param(job(metadata__finalizers=["a/b"]), "to change its finalizers and owners takes", id="holds"),
        pytest.param(job(metadata__ownerReferences=[{"uid": "u"}]), "to change its finalizers and", id="gives-away"),
    ],
)
def test_a_job_is_ended_and_kept_by_those_who_may_end_its_pod(new, text):
    request = asked("DELETE" if new is None else "UPDATE", user=MALLORY)

    def passes(*rights: str) -> tuple[bool, str]:
        return judge(JOBS, request, obj=new, old=job(), rights=rights)

    passed, said = passes(*EVIL)
    assert not passed
    assert said.startswith("podmigrationjob demo: it migrates a pod of namespace victim, where " + MALLORY)
    assert text in said
    assert passes("create pods/eviction in victim") == passes(MAY_DELETE) == passes(*COLLECTOR) == (True, "")


def test_other_changes_of_jobs_are_left_to_the_other_policy():
    assert judge(JOBS, asked("UPDATE", user=MALLORY), obj=job(spec__paused=True), old=job())[0]
