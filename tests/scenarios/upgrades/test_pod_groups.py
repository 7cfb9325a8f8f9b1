"""A live cluster goes to Kubernetes 1.37 while a PodGroup is stored that 1.36 alone can read.

Kubernetes 1.36 has PodGroups in scheduling.k8s.io/v1alpha2, 1.37 in v1beta1 and v1alpha3. No version can read what the
other one stores, so nothing can be migrated: whoever upgrades deletes the PodGroups before, as the changelog of
Kubernetes asks, or removes them by force deletion afterwards. docs/how-to/upgrade.md tells both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any, Final

import pytest

from tests.cluster import binaries, stored
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import kubectl
from tests.cluster.options import WITHOUT_CLAIM_CONTROLLER, Options
from tests.cluster.probes import healthy
from tests.cluster.processes import Process
from tests.cluster.versions import Kind
from tests.scenarios import installation, objects, steps
from tests.scenarios.api import ApiError
from tests.scenarios.audit import assert_no_device_was_doubled, assert_pods_kept_their_devices
from tests.scenarios.behind_gates.test_pod_groups import FREED_WITHIN, names
from tests.scenarios.claims import entries
from tests.scenarios.conftest import SOUND_NODES
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import CLAIMS, PODS, Resource
from tests.scenarios.target import Capability, Mode, Place, Target

pytestmark = [
    pytest.mark.long,
    pytest.mark.needs(Capability.COMPONENTS),
    pytest.mark.usefixtures("controller", "shared"),
]

Json = dict[str, Any]

BEFORE: Final = "1.36"
AFTER: Final = "1.37"
"""The versions between which PodGroups change the version that they are stored in."""

GATES: Final = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}

FEW: Final = 3

SHAPE: Final = PodShape(claim="shared", group="crew")

STORAGE_INITIALIZATION: Final = 60.0
"""Seconds until kube-apiserver is ready though it cannot read a resource: --storage-initialization-timeout."""

PATIENT: Final = 60.0
"""Seconds more, on a busy machine; schedulers wait for up to a minute between two lists that fail."""

BY_FORCE: Final = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "ignoreStoreReadErrorWithClusterBreakingPotential": True,
}


def pod_groups(kubernetes: str) -> Resource:
    """Return PodGroups in the version in which a Kubernetes has them."""
    return Resource(Kind.POD_GROUP.api_version(kubernetes), "PodGroup", "podgroups")


def serving(kubernetes: str) -> str:
    """Return the flag of kube-apiserver by which it serves PodGroups."""
    return f"--runtime-config={pod_groups(kubernetes).api_version}=true"


@pytest.fixture
def target() -> Iterator[Target]:
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("components are replaced by those of another version: a cluster of its own")
    options = Options(
        kubernetes=BEFORE,
        controllers=WITHOUT_CLAIM_CONTROLLER,
        nodes=SOUND_NODES,
        feature_gates=GATES,
        apiserver_flags=(serving(BEFORE),),
    )
    with Cluster(options) as cluster:
        admin = cluster.admin_kubeconfig
        installation.install(admin)
        installation.guard(admin)
        yield Target(
            mode=Mode.REPLACE,
            admin=admin,
            controller=installation.controller_kubeconfig(admin, cluster.folder.path),
            folder=cluster.folder,
            own=cluster,
        )


@pytest.fixture
async def shared(namespace: Namespace) -> AsyncIterator[None]:
    """A claim that is reserved for a PodGroup, whose pods run; at its end no device was taken from a pod."""
    async with namespace.history("") as claims, namespace.history("", resource=PODS) as pods:
        await namespace.create(objects.claim("shared", device_class=await namespace.offer_devices()))
        await create_group(namespace, BEFORE)
        await run_pods(namespace, "before")
        await is_reserved(namespace)
        yield
        await claims.catch_up()
    assert_no_device_was_doubled(claims)
    assert assert_pods_kept_their_devices(claims.only("shared"), pods, "shared") == 2 * FEW


async def test_a_pod_group_is_deleted_before_the_upgrade_and_created_again_after_it(
    target: Target, namespace: Namespace
) -> None:
    await end_pods(namespace, "before")
    kubectl("delete", "podgroups,workloads", "--all", "--all-namespaces", kubeconfig=target.admin)
    await steps.freed(namespace, "shared", within=FREED_WITHIN)
    assert versions_of_groups(target.cluster) == set()

    for component in components(target.cluster):
        await asyncio.to_thread(exchange, component)
        await asyncio.to_thread(component.wait_ready)
    await is_usable(namespace)
    assert versions_of_groups(target.cluster) == {pod_groups(AFTER).api_version}
    await take_apart(namespace)


async def test_a_pod_group_that_was_forgotten_keeps_the_claim_until_it_is_deleted_by_force(
    target: Target, namespace: Namespace
) -> None:
    cluster, groups = target.cluster, pod_groups(AFTER)
    claim = await namespace.get(CLAIMS, "shared")
    await asyncio.to_thread(exchange, cluster.apiserver)
    await eventually(
        lambda: readiness(namespace),
        until=lambda told: "storage-readiness" in told,
        saying="the API server says that it cannot read a resource",
    )
    await asyncio.to_thread(cluster.apiserver.wait_ready, within=STORAGE_INITIALIZATION + PATIENT)
    with pytest.raises(
        ApiError, match=f'no kind "PodGroup" is registered for version "{pod_groups(BEFORE).api_version}"'
    ):
        await namespace.all(groups)
    with pytest.raises(ApiError, match="corrupt object"):
        await namespace.delete(groups, "crew")
    for component in (cluster.controller_manager, cluster.scheduler):
        await asyncio.to_thread(exchange, component)
    await end_pods(namespace, "before")
    await steadily(lambda: is_kept(namespace, claim), lasting=FREED_WITHIN, saying="the claim stays reserved")
    assert not healthy(cluster.ports.scheduler, "/readyz")

    await namespace.api.request("DELETE", groups.path(namespace=namespace.name, name="crew"), BY_FORCE)
    for component in components(cluster):
        await asyncio.to_thread(component.wait_ready, within=PATIENT + PATIENT)
    assert versions_of_groups(cluster) == set()
    await steps.freed(namespace, "shared", within=FREED_WITHIN + PATIENT)
    await is_usable(namespace)
    await take_apart(namespace)


async def create_group(namespace: Namespace, kubernetes: str) -> None:
    """Create the PodGroup as a Kubernetes has it."""
    resource = pod_groups(kubernetes)
    body = objects.pod_group("crew", SHAPE) | {"apiVersion": resource.api_version}
    await namespace.api.request("POST", resource.path(namespace=namespace.name), body)


async def run_pods(namespace: Namespace, prefix: str) -> None:
    """Let pods of the PodGroup run."""
    pods = objects.pods(prefix, FEW, SHAPE)
    await namespace.create_all(pods)
    await steps.pods_run(namespace, *(pod["metadata"]["name"] for pod in pods), within=PATIENT)


async def end_pods(namespace: Namespace, prefix: str) -> None:
    """Delete pods of the PodGroup, and wait until they are gone."""
    for number in range(FEW):
        await namespace.delete(PODS, f"{prefix}-{number}")
    await eventually(lambda: namespace.all(PODS), until=lambda left: not left, saying="the pods are gone")


async def is_reserved(namespace: Namespace) -> None:
    """Wait until the PodGroup's entry is the only one of the claim."""
    group = ["podgroups/crew"]
    await steps.claim_is(namespace, "shared", lambda claim: names(claim) == group, saying="is reserved for the group")


async def is_kept(namespace: Namespace, before: Json) -> bool:
    """Tell whether the claim has the entries and the devices that it had."""
    claim = await namespace.get(CLAIMS, "shared")
    return entries(claim) == entries(before) and claim["status"]["allocation"] == before["status"]["allocation"]


async def is_usable(namespace: Namespace) -> None:
    """Assert that the PodGroup can be created again, and that its pods share the claim."""
    await create_group(namespace, AFTER)
    await run_pods(namespace, "after")
    await is_reserved(namespace)


async def take_apart(namespace: Namespace) -> None:
    """Delete the pods and the PodGroup, and wait until the devices are free."""
    await end_pods(namespace, "after")
    await namespace.delete(pod_groups(AFTER), "crew")
    await steps.freed(namespace, "shared", within=FREED_WITHIN)


async def readiness(namespace: Namespace) -> str:
    """Return what /readyz says is not ready, empty while nobody answers."""
    try:
        await namespace.api.request("GET", "/readyz")
    except ApiError as error:
        return str(error) if error.status == HTTPStatus.INTERNAL_SERVER_ERROR else ""
    except OSError:  # aiohttp's refusals are OSErrors
        return ""
    return ""


def components(cluster: Cluster) -> tuple[Process, ...]:
    """Return the components in the order in which they are exchanged."""
    return cluster.apiserver, cluster.controller_manager, cluster.scheduler


def exchange(component: Process) -> None:
    """Stop a component and start the newer one, without waiting until that is ready."""
    binary = str(binaries.build(binaries.controlplane(AFTER)))
    flags = (serving(AFTER) if each == serving(BEFORE) else each for each in component.command[1:])
    component.stop()
    component.command = [binary, *flags]
    component.spawn()


def versions_of_groups(cluster: Cluster) -> set[str]:
    """Return the versions that PodGroups are stored in."""
    found = stored.versions(cluster.ports.etcd)
    return {version for key, version in found.items() if key.startswith("podgroups/")}
