"""Nobody but the controller makes a pod that stands for a Reservation, as the real API server has it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import KubectlError, kubectl
from tests.deploy.admission_requests import changed as changed_object
from tests.deploy.admission_requests import placeholder as genuine_pod
from tests.dra.engine.translation.examples import gpus
from tests.scenarios.api import Api, Json
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.test_manual import reaches, reservation, stranger
from tests.scenarios.resources import PODS
from tests.scenarios.target import Target

TENANT: Final = "--as=tenant"
UID: Final = "0c3f1e9a-5f6b-4f0e-9f3c-1d2a3b4c5d6e"
NAME: Final = f"reservation-{UID}"
LABEL: Final = "reserve.dra/placeholder"
OWNER: Final = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Reservation",
    "name": "r",
    "uid": UID,
    "controller": True,
}
JOB: Final = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": UID, "controller": True}


def pod(name: str, **metadata: Any) -> Json:
    made = stranger(name, cpu="1m")
    made["spec"]["schedulingGates"] = [{"name": "example.com/for-ever"}]
    made["metadata"] |= metadata
    return made


@pytest.fixture
async def tenant(cluster: Cluster, emptied: Api, target: Target) -> AsyncIterator[Target]:
    """The target; user `tenant` has `edit` in namespace default, and the policy is in force."""
    assert cluster.admin_kubeconfig == target.admin  # a plane has no policies
    assert await emptied.all(PODS, namespace="default") == []
    bind = ("rolebinding", "tenant", "--clusterrole=edit", "--user=tenant", "--namespace=default")
    kubectl("create", *bind, kubeconfig=target.admin)

    def in_force() -> bool:
        return bool(refused(target, "create", pod(NAME)))

    await eventually(in_force, within=30, saying="the admission policy is in force")
    yield target
    kubectl("delete", "rolebinding", "tenant", "--namespace=default", kubeconfig=target.admin)


def refused(target: Target, verb: str, manifest: Json, *, who: tuple[str, ...] = (TENANT,)) -> str:
    """Return why a write is refused; nothing if it is not."""
    arguments = (verb, "--filename=-", "--namespace=default", "--dry-run=server", *who)
    try:
        kubectl(*arguments, kubeconfig=target.admin, stdin=json.dumps(manifest))
    except KubectlError as error:
        return str(error)
    return ""


def changed(target: Target, name: str, patch: Json) -> str:
    arguments = ("patch", "pod", name, "--namespace=default", "--type=merge", "--dry-run=server", TENANT)
    try:
        kubectl(*arguments, f"--patch={json.dumps(patch)}", kubeconfig=target.admin)
    except KubectlError as error:
        return str(error)
    return ""


STOLEN: Final = {
    "image": {"spec__containers__0__image": "attacker.example.com/pause:rootkit"},
    "capabilities": {"spec__containers__0__securityContext__capabilities": {"add": ["SYS_MODULE", "DAC_READ_SEARCH"]}},
    "root": {"spec__containers__0__securityContext__runAsUser": 0},
    "hook": {"spec__containers__0__lifecycle": {"postStart": {"exec": {"command": ["id"]}}}},
    "secrets": {"spec__containers__0__envFrom": [{"secretRef": {"name": "any", "optional": True}}]},
    "sysctl": {"spec__securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]}},
    "processes": {"spec__shareProcessNamespace": True},
    "node": {"spec__nodeName": "node-0"},
    "critical": {"spec__priorityClassName": "system-node-critical"},
    "volume": {"spec__volumes": [{"name": "a", "emptyDir": {}}]},
}
"""What a stolen token of the controller would add to a placeholder."""

SPURIOUS: Final = {
    "all-of-it": pod(NAME, labels={LABEL: "true"}, ownerReferences=[OWNER]),
    "its-name": pod(NAME),
    "its-label": pod("p", labels={LABEL: "true"}),
    "its-controller": pod("p", ownerReferences=[OWNER]),
}
ORDINARY: Final = {
    "nothing-special": pod("p"),
    "of-a-job": pod("p", ownerReferences=[JOB]),
    "a-name-like-it": pod("reservation-demo-0"),
    "a-reservation-that-is-not-its-controller": pod("p", ownerReferences=[OWNER | {"controller": False}]),
}


async def test_a_tenant_makes_no_placeholder_and_everything_else(tenant: Target) -> None:
    for row, manifest in SPURIOUS.items():
        told = refused(tenant, "create", manifest)
        assert "for pods that dra-reserve makes; tenant may not" in told, row
        assert "Forbidden" in told, row
    assert {row: refused(tenant, "create", manifest) for row, manifest in ORDINARY.items()} == dict.fromkeys(
        ORDINARY, ""
    )
    ours = ("--as=system:serviceaccount:dra-reserve:dra-reserve-controller",)
    assert "which run a pause image and nothing else" in refused(tenant, "create", SPURIOUS["all-of-it"], who=ours)
    for genuine in (genuine_pod(), genuine_pod(gpus("a", gpu="50"), init=[gpus("i", gpu="75")])):
        genuine |= {"apiVersion": "v1", "kind": "Pod"}
        assert refused(tenant, "create", genuine, who=ours) == ""
    for row, changes in STOLEN.items():
        stolen = changed_object(genuine_pod(), apiVersion="v1", kind="Pod", **changes)
        assert "which run a pause image and nothing else" in refused(tenant, "create", stolen, who=ours), row


async def test_a_tenant_turns_no_pod_into_one_and_relabels_none(tenant: Target, emptied: Api) -> None:
    await emptied.create(pod("plain"), namespace="default")
    await emptied.create(pod(NAME, labels={LABEL: "true"}), namespace="default")
    assert "tenant may not" in changed(tenant, "plain", {"metadata": {"labels": {LABEL: "true"}}})
    assert "tenant may not" in changed(tenant, "plain", {"metadata": {"ownerReferences": [OWNER]}})
    assert "tenant may not" in changed(tenant, NAME, {"metadata": {"labels": {LABEL: None}}})
    assert "tenant may not" in changed(tenant, NAME, {"metadata": {"labels": {LABEL: "false"}}})
    assert changed(tenant, "plain", {"metadata": {"labels": {"app": "other"}}}) == ""
    assert changed(tenant, NAME, {"metadata": {"annotations": {"a": "b"}}}) == ""


@pytest.mark.long  # garbage collection gets to know kinds every thirty seconds
async def test_who_deletes_a_reservation_that_waits_may_leave_its_pod_behind(tenant: Target, emptied: Api) -> None:
    """Garbage collection takes the reference off, which ends the deletion: it must be let."""
    await emptied.create(reservation("waits", cpu="1k"))
    await reaches(emptied, "waits", "Pending")

    async def placeholder() -> bool:
        return bool(await emptied.all(PODS, namespace="default"))

    await eventually(placeholder, saying="its placeholder is there")
    kubectl("delete", "reservation", "waits", "--cascade=orphan", "--timeout=80s", kubeconfig=tenant.admin)
