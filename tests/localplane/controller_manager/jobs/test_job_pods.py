from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.meta import ObjectMeta, OwnerReference
from localplane.controller_manager.api_types import Condition, ContainerStatus, Pod, PodStatus
from localplane.controller_manager.jobs.job_pods import JobPodIndex, JobPods
from localplane.controller_manager.jobs.job_types import JOB_TRACKING_FINALIZER

STATES = tuple(field.name for field in fields(JobPods) if field.name not in ("ready", "restarts"))


def owned_by(job, *, kind="Job", api_version="batch/v1"):
    return [OwnerReference(api_version=api_version, kind=kind, name="train", uid=job, controller=True)]


def pod(uid="p1", *, phase="Running", held=True, deleting=False, ready=False, restarts=0, owners=()):
    meta = ObjectMeta(
        name=uid,
        namespace="ml",
        uid=uid,
        finalizers=[JOB_TRACKING_FINALIZER] if held else None,
        deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        owner_references=list(owners),
    )
    status = PodStatus(
        phase=phase,
        conditions=[Condition(type="Ready", status="True" if ready else "False")],
        container_statuses=[ContainerStatus(name="main", restart_count=restarts)],
    )
    return Pod(metadata=meta, status=status)


def states(pods):
    return {name for name in STATES if getattr(pods, name)}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param({}, {"active", "held"}, id="active"),
        pytest.param({"deleting": True}, {"terminating", "held", "held_inactive"}, id="terminating"),
        pytest.param({"phase": "Succeeded"}, {"succeeded", "held", "held_inactive"}, id="succeeded-and-not-counted"),
        pytest.param({"phase": "Succeeded", "held": False}, {"succeeded"}, id="succeeded-and-counted"),
        pytest.param({"phase": "Failed", "deleting": True}, {"failed", "held", "held_inactive"}, id="failed-deleting"),
        pytest.param({"held": False}, {"active"}, id="active-without-the-finalizer"),
    ],
)
def test_states_that_a_pod_is_in(state, expected):
    assert states(JobPods.of([pod(**state)])) == expected


VERSIONS = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    held=st.booleans(),
    deleting=st.booleans(),
    ready=st.booleans(),
    restarts=st.integers(0, 3),
    owners=st.sampled_from(
        [owned_by("j1"), owned_by("j2"), owned_by("j1", kind="ReplicaSet", api_version="apps/v1"), ()]
    ),
)


@given(st.lists(st.tuples(VERSIONS, st.booleans())))
def test_pods_kept_as_they_change_are_those_sorted_from_nothing(changes):
    index, current = JobPodIndex(), {}
    for version, deleted in changes:
        index.observe(version, deleted=deleted)
        current.pop(version.metadata.uid, None)
        if not deleted:
            current[version.metadata.uid] = version
    for job in ("j1", "j2"):
        pods = (p for p in current.values() if p.metadata.owner_references == owned_by(job))
        assert index.pods_of(job) == JobPods.of(pods)


def test_active_pods_stay_in_the_order_of_their_creation():
    pods = JobPods.of([pod("p1"), pod("p2")])
    pods.observe(pod("p1", ready=True))
    assert list(pods.active) == ["p1", "p2"]


def test_the_index_keeps_nothing_of_a_job_without_pods():
    index, mine = JobPodIndex(), pod(owners=owned_by("j1"))
    index.observe(mine, deleted=False)
    index.observe(mine, deleted=True)
    assert not index.pods_of("j1")
    assert not index._jobs
    assert not index._job_uids
