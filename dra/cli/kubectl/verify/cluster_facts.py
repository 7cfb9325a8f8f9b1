"""Reads the facts of a cluster that a report may have; what may not be read is left out, and named."""

from collections import Counter
from collections.abc import Awaitable
from typing import Any, Final

import msgspec

from dra.api.rbac import LEASE_NAME, NAMESPACE
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.snapshots.deployment_reader import read_deployments
from dra.cli.kubectl.snapshots.lease_reader import read_controller_lease
from dra.cli.kubectl.verify import public_facts
from dra.kube.client import Client
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, raise_for_status
from dra.kube.resources import NODES, SLICES
from dra.kube.transport import Request
from dra.model.meta import ObjectMeta, Struct
from dra.model.references import GroupResource
from dra.model.slices import ResourceSliceTaints

METRICS_BYTES_MAX: Final = 64 * 2**20
"""Maximum size of the API server's metrics: those of a large cluster have some tens of megabytes."""

NOT_READABLE: Final = "not readable"

SERVED_KINDS: Final = (
    GroupResource(resource="resourceclaims", group="resource.k8s.io"),
    GroupResource(resource="devicetaintrules", group="resource.k8s.io"),
    GroupResource(resource="podgroups", group="scheduling.k8s.io"),
    GroupResource(resource="mutatingadmissionpolicies", group="admissionregistration.k8s.io"),
)
"""Kinds that decide which functions can work."""

OPENSHIFT_KIND: Final = GroupResource(resource="securitycontextconstraints", group="security.openshift.io")

_API_VERSIONS: Final = frozenset({"v1", "v1beta1", "v1beta2", "v1alpha1", "v1alpha2", "v1alpha3"})


class _NodeInfo(Struct, frozen=True):
    kubelet_version: str = ""
    container_runtime_version: str = ""
    architecture: str = ""


class _NodeStatus(Struct, frozen=True):
    node_info: _NodeInfo = _NodeInfo()


class _NodeSpec(Struct, frozen=True):
    provider_id: str = msgspec.field(default="", name="providerID")


class _Node(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


async def is_openshift(client: Client) -> bool:
    """Report whether the API server serves OpenShift's kinds; raise ApiError."""
    return await Discovery(client).resolve(OPENSHIFT_KIND) is not None


async def read_facts(connection: Connection, *, namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return the facts of a cluster, each of a closed set or a number; raise ApiError if it does not answer."""
    client = connection.client
    version = (await client.version()).git_version
    platform = "OpenShift" if await is_openshift(client) else public_facts.platform_of(version)
    lease = await read_controller_lease(client, (namespace, LEASE_NAME))
    deployments = await read_deployments(client, namespace=namespace)
    return {
        "kubernetes": {"version": public_facts.version_text(version), "platform": platform},
        "apis": await _served_kinds(client),
        "gates": await _or_unreadable(_feature_gates(connection)),
        "nodes": await _or_unreadable(_nodes(client)),
        "devices": await _or_unreadable(_devices(client)),
        "dra-reserve": {
            "controller": lease.presence.value,
            "components": public_facts.component_facts(deployments),
        },
    }


async def _or_unreadable(read: Awaitable[dict[str, Any]]) -> dict[str, Any] | str:
    try:
        return await read
    except ApiError:
        return NOT_READABLE


async def _served_kinds(client: Client) -> dict[str, str]:
    discovery = Discovery(client)
    served = {str(kind): await discovery.resolve(kind) for kind in SERVED_KINDS}
    return {
        name: "not served" if resource is None else public_facts.known(resource.version, _API_VERSIONS)
        for name, resource in served.items()
    }


async def _feature_gates(connection: Connection) -> dict[str, Any]:
    """Return the feature gates of the API server, from its metrics; raise ApiError."""
    request = Request(method="GET", path="/metrics", accept="text/plain", timeout=30.0, max_bytes=METRICS_BYTES_MAX)
    answer = await connection.transport.send(request)
    raise_for_status(answer, "/metrics")
    return dict(public_facts.feature_gates(answer.body.decode(errors="replace")))


async def _nodes(client: Client) -> dict[str, Any]:
    nodes = [node async for page in client.list_pages(NODES, _Node) for node in page.items]
    infos = [node.status.node_info for node in nodes]
    return {
        "number": len(nodes),
        "kubelets": public_facts.counted(public_facts.version_text(info.kubelet_version) for info in infos),
        "runtimes": public_facts.counted(public_facts.runtime_text(info.container_runtime_version) for info in infos),
        "architectures": public_facts.counted(
            public_facts.known(info.architecture, public_facts.ARCHITECTURES) for info in infos
        ),
        "providers": public_facts.counted(public_facts.provider_of(node.spec.provider_id) for node in nodes),
    }


async def _devices(client: Client) -> dict[str, Any]:
    """Return the number of devices by driver."""
    devices: Counter[str] = Counter()
    async for page in client.list_pages(SLICES, ResourceSliceTaints):
        for part in page.items:
            devices[public_facts.known(part.spec.driver, public_facts.DRIVERS)] += part.spec.offered
    return dict(sorted(devices.items()))
