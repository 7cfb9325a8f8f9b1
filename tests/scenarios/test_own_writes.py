"""What the tokens of our accounts are good for, judged by a real API server: their work, and nothing else.

The rows of tests/deploy/test_own_writes.py go further; here is what a thief would try first, with the installed rights
and policies. That the accounts can do their work is shown by all other scenarios, which run with the same ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.scenarios import api as kubernetes
from tests.scenarios import installation, objects
from tests.scenarios.api import Api, ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS, RESOURCE_SLICES, Resource
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.RIGHTS)]


class Thief:
    """Writes with somebody's token, always as a dry run."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    async def told(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> str:
        """Return why a write is refused; nothing if it is not."""
        try:
            await self.api.request(method, path, body, query={"dryRun": "All"}, content_type=kind)
        except ApiError as error:
            return str(error)
        return ""

    async def patched(self, patch: Any, *, status: bool = False) -> str:
        """Patch the pod that uses a claim; lists of containers are merged by name."""
        path = PODS.path(namespace=self.namespace, name="user", subresource="status" if status else None)
        return await self.told("PATCH", path, patch, kind="application/strategic-merge-patch+json")

    async def deleted(self, pod: str) -> str:
        """Delete a pod."""
        return await self.told("DELETE", PODS.path(namespace=self.namespace, name=pod))


@pytest.fixture
async def thief(target: Target, namespace: Namespace) -> AsyncIterator[Thief]:
    waits = {"schedulingGates": [{"name": "reserve.dra/claim"}, {"name": "example.com/for-ever"}]}
    await namespace.create(objects.pod("user", PodShape(claim="none", spec=waits)))
    await namespace.create(objects.pod("bystander", PodShape(claim=None, spec=waits)))
    async with kubernetes.connect(target.controller) as client:
        found = Thief(client, namespace.name)
        await eventually(
            lambda: found.patched(IMAGE), until=lambda text: "scheduling gates off" in text, saying="it is in force"
        )
        yield found


IMAGE: Final = {"spec": {"containers": [{"name": "main", "image": "evil"}]}}
OURS_OFF: Final = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "reserve.dra/claim"}]}}
ALL_OFF: Final = {"spec": {"schedulingGates": None}}
LABEL: Final = {"metadata": {"labels": {"app": "other"}}}
TOUCH: Final = {"metadata": {"annotations": {"reserve.dra/listed-at": "1"}}}
NOTE: Final = {"metadata": {"annotations": {"example.com/note": "1"}}}
SCHEDULED: Final = {"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}
EVICTED: Final = {
    "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager"}]}
}
FAILED: Final = {"status": {"phase": "Failed"}}
EVENTS: Final = Resource("events.k8s.io/v1", "Event", "events")
POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "root", "namespace": "kube-system"},
    "spec": {
        "hostPID": True,
        "containers": [{"name": "a", "image": "b", "securityContext": {"privileged": True}}],
    },
}


async def test_a_token_of_the_controller_changes_of_pods_what_the_controller_changes(thief: Thief) -> None:
    refused = {
        "image": await thief.patched(IMAGE),
        "a-foreign-gate": await thief.patched(ALL_OFF),
        "labels": await thief.patched(LABEL),
        "a-foreign-annotation": await thief.patched(NOTE),
        "phase": await thief.patched(FAILED, status=True),
        "another-condition": await thief.patched(SCHEDULED, status=True),
        "deletes-a-user": await thief.deleted("user"),
        "deletes-a-bystander": await thief.deleted("bystander"),
    }
    assert {row: "the controller may not" in text for row, text in refused.items()} == dict.fromkeys(refused, True)
    assert [await thief.patched(patch) for patch in (OURS_OFF, TOUCH)] == ["", ""]
    assert await thief.patched(EVICTED, status=True) == ""


async def test_a_token_of_the_controller_that_is_granted_more_makes_no_privileged_pod(
    target: Target, namespace: Namespace
) -> None:
    """With Reservations on, the account may create pods: of a kind."""
    name = f"{namespace.name}-creates"
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    await namespace.create({**rbac, "kind": "ClusterRole", "rules": rules})
    account = {"kind": "ServiceAccount", "name": installation.SERVICE_ACCOUNT, "namespace": installation.NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    await namespace.create({**rbac, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [account]})
    async with kubernetes.connect(target.controller) as client:
        thief = Thief(client, namespace.name)
        await eventually(
            lambda: thief.told("POST", PODS.path(namespace="kube-system"), POD),
            until=lambda text: "it makes placeholders of Reservations" in text,
            within=30,
            saying="it is refused in the words of the policy",
        )


async def test_a_token_of_the_controller_writes_of_claims_what_the_controller_writes(
    thief: Thief, namespace: Namespace
) -> None:
    """With generation on, the account may create, patch and delete claims of everybody."""
    await namespace.create(objects.claim("theirs", device_class="none.example.com"))
    path = CLAIMS.path(namespace=namespace.name, name="theirs")
    merge = "application/merge-patch+json"
    gone = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "u", "controller": True}
    made = objects.claim("made", device_class="none.example.com")
    refused = {
        "labels": await thief.told("PATCH", path, LABEL, kind=merge),
        "a-foreign-annotation": await thief.told("PATCH", path, NOTE, kind=merge),
        "a-finalizer": await thief.told("PATCH", path, {"metadata": {"finalizers": ["example.com/x"]}}, kind=merge),
        "an-owner-that-is-gone": await thief.told("PATCH", path, {"metadata": {"ownerReferences": [gone]}}, kind=merge),
        "deletes-it": await thief.told("DELETE", path),
        "makes-one": await thief.told("POST", CLAIMS.path(namespace=namespace.name), made),
    }
    assert {row: "the controller may not" in text for row, text in refused.items()} == dict.fromkeys(refused, True)
    assert await thief.told("PATCH", path, TOUCH, kind=merge) == ""
    other = event(namespace.name) | {"reportingController": "kubelet"}
    assert "posts Events of events.k8s.io" in await thief.told("POST", EVENTS.path(namespace="default"), other)


def slice_of(*, node: str = "node-000", pool: str = "node-000", driver: str = "cpu.reserve.dra") -> Any:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "stolen"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool, "generation": 99, "resourceSliceCount": 1},
            "devices": [{"name": "cpu-0", "taints": [{"key": "a/b", "effect": "NoExecute"}]}],
        },
    }


def event(namespace: str, *, about: str = "node-000", kind: str = "Node") -> Any:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "forged", "namespace": "default" if kind == "Node" else namespace},
        "eventTime": "2026-11-22T10:00:00.000000Z",
        "reportingController": "reserve.dra/kubelet-plugin",
        "reportingInstance": "node-000",
        "action": "Serve",
        "reason": "Told",
        "type": "Warning",
        "note": "x",
        "regarding": {
            "apiVersion": "v1",
            "kind": kind,
            "name": about,
            **({} if kind == "Node" else {"namespace": namespace}),
        },
    }


async def test_a_token_of_a_plugin_writes_slices_and_events_of_its_own_node(
    target: Target, namespace: Namespace
) -> None:
    """A slice in the pool of another node took its devices away, and its taint ended the pods there."""
    await asyncio.to_thread(installation.install, target.admin, kustomization=installation.PLUGIN_KUSTOMIZATION)
    path = await asyncio.to_thread(installation.plugin_kubeconfig, target.admin, target.folder.path, node="node-000")
    async with kubernetes.connect(path) as client:
        thief = Thief(client, namespace.name)

        async def slices(**given: str) -> str:
            return await thief.told("POST", RESOURCE_SLICES.path(), slice_of(**given))

        async def events(**given: str) -> str:
            made = event(namespace.name, **given)
            return await thief.told("POST", EVENTS.path(namespace=made["metadata"]["namespace"]), made)

        await eventually(
            lambda: slices(pool="node-001"), until=lambda text: "of pool node-001" in text, within=30, saying="in force"
        )
        await eventually(
            lambda: events(kind="Pod"), until=lambda text: "about that node only" in text, within=30, saying="in force"
        )
        assert "of driver gpu.nvidia.com" in await slices(driver="gpu.nvidia.com")
        assert "slices of node node-001" in await slices(node="node-001", pool="node-001")
        assert "about that node only" in await events(about="node-001")
        assert await slices() == ""
        assert await events() == ""
