"""Writes a cluster of any size into a real kube-apiserver's etcd: nodes, devices, claims in use, and their pods.

The API server stores one object of each kind. Its stored form, with all defaults and managedFields, is then copied into
etcd under other names, as many at once as etcd takes: 130,000 requests would take the API server twenty minutes.
"""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from bench.page_cluster import NAMESPACES, WORKLOADS
from tests.cluster.ports import LOOPBACK
from tests.scenarios.resources import CLAIMS, JOBS, NODES, PODS, RESOURCE_SLICES
from tests.scenarios.resources import NAMESPACES as NAMESPACE_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.scenarios.api import Api, Json

DRIVER: Final = "gpu.example.com"
DEVICES: Final = 2
"""Devices of each node."""
FREE: Final = 10
"""Every tenth device is free."""
CLAIMS_OF_A_JOB: Final = 40
PUTS_AT_ONCE: Final = 100
"""Objects in one transaction; etcd takes 128."""

REGISTRY: Final = {
    "Node": "minions",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "Pod": "pods",
}
"""Kind → the folder of its objects in etcd."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A device that a claim holds, and the pods that use the claim."""

    node: str
    device: str
    namespace: str
    workload: str
    claim: str
    pods: int


MODEL: Final = Slot(
    node="xnodex", device="gpu-0", namespace="xnamespacex", workload="xworkloadx", claim="xclaimx", pods=1
)
"""The names of the objects that are copied; nothing else in the objects contains these words."""

MODEL_POD: Final = "xpodx"


def slots(*, nodes: int, pods: int) -> list[Slot]:
    """Return the held devices."""
    devices = [(name, f"gpu-{device}") for name in node_names(nodes) for device in range(DEVICES)]
    used = [pair for number, pair in enumerate(devices) if number % FREE]
    held = []
    for number, (node, device) in enumerate(used):
        workload = f"{WORKLOADS[number // len(NAMESPACES) % len(WORKLOADS)]}-{number // CLAIMS_OF_A_JOB}"
        held.append(
            Slot(
                node=node,
                device=device,
                namespace=NAMESPACES[number % len(NAMESPACES)],
                workload=workload,
                claim=f"{workload}-{number}",
                pods=pods // len(used) + (number < pods % len(used)),
            )
        )
    return held


def node_names(number: int) -> list[str]:
    """Return the names of the nodes."""
    return [f"node-{index + 1}" for index in range(number)]


def pod(slot: Slot, name: str) -> Json:
    """Return a Pod on the node of a claim that it uses, as a scheduler has bound it."""
    container = {
        "name": "main",
        "image": "registry.example.com/train:1",
        "command": ["python", "-m", "train", "--config=/etc/train/config.yaml"],
        "env": [{"name": f"SETTING_{number}", "value": "some value of it"} for number in range(8)],
        "resources": {"requests": {"cpu": "1", "memory": "4Gi"}, "claims": [{"name": "gpu"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": slot.namespace, "labels": {"job-name": slot.workload}},
        "spec": {
            "nodeName": slot.node,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": slot.claim}],
        },
    }


POD_STATUS: Final = {
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [
            {"type": name, "status": "True"}
            for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
    }
}

NODE_STATUS: Final = {
    "status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "250"},
        "capacity": {"cpu": "64", "memory": "512Gi", "pods": "250"},
    }
}


async def write(api: Api, slots: list[Slot], *, nodes: int, etcd_port: int) -> None:
    """Write all objects; return when etcd has stored them."""
    for namespace in (*NAMESPACES, MODEL.namespace):
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.create(account, namespace=namespace)  # no controller creates it here
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }
    await api.create(device_class)
    jobs = dict.fromkeys((slot.namespace, slot.workload) for slot in (MODEL, *slots))
    uids = {}
    for namespace, name in jobs:
        made = await api.create(_job(namespace, name), namespace=namespace)
        uids[namespace, name] = made["metadata"]["uid"]
    models = await _write_models(api, uids[MODEL.namespace, MODEL.workload])
    model_uid = uids[MODEL.namespace, MODEL.workload]

    def objects() -> Iterator[tuple[str, str]]:
        for name in node_names(nodes):
            for kind, own_name in (("Node", name), ("ResourceSlice", f"{name}-gpus")):
                yield f"{REGISTRY[kind]}/{own_name}", _copy(models[kind], {MODEL.node: name})
        for slot in slots:
            names = {
                MODEL.node: slot.node,
                MODEL.namespace: slot.namespace,
                MODEL.workload: slot.workload,
                MODEL.claim: slot.claim,
                model_uid: uids[slot.namespace, slot.workload],
                f'"device": "{MODEL.device}"': f'"device": "{slot.device}"',
            }
            yield f"{REGISTRY['ResourceClaim']}/{slot.namespace}/{slot.claim}", _copy(models["ResourceClaim"], names)
            for number in range(slot.pods):
                name = f"{slot.claim}-{number}"
                yield f"{REGISTRY['Pod']}/{slot.namespace}/{name}", _copy(models["Pod"], names | {MODEL_POD: name})

    await put_all(objects(), port=etcd_port)
    await _delete_models(api)


async def _write_models(api: Api, job_uid: str) -> dict[str, tuple[str, str]]:
    """Create one object of each kind as the API server stores it; return uid and text of each by kind."""
    here = {"key": "metadata.name", "operator": "In", "values": [MODEL.node]}
    result = {"request": "gpu", "driver": DRIVER, "pool": MODEL.node, "device": MODEL.device}
    entry = {"apiGroup": "batch", "resource": "jobs", "name": MODEL.workload, "uid": job_uid}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]}}
    namespace = MODEL.namespace
    await api.create(_node(MODEL.node))
    await api.create(_resource_slice(MODEL.node))
    await api.create(_claim(MODEL), namespace=namespace)
    await api.create(pod(MODEL, MODEL_POD), namespace=namespace)
    claim_status = {"status": {"allocation": allocation, "reservedFor": [entry]}}
    models = {
        "Node": await api.patch(NODES, MODEL.node, NODE_STATUS, subresource="status"),
        "ResourceSlice": await api.get(RESOURCE_SLICES, f"{MODEL.node}-gpus"),
        "ResourceClaim": await api.patch(CLAIMS, MODEL.claim, claim_status, subresource="status", namespace=namespace),
        "Pod": await api.patch(PODS, MODEL_POD, POD_STATUS, subresource="status", namespace=namespace),
    }
    for model in models.values():
        del model["metadata"]["resourceVersion"]  # etcd's own
    return {kind: (model["metadata"]["uid"], json.dumps(model)) for kind, model in models.items()}


async def _delete_models(api: Api) -> None:
    namespace = MODEL.namespace
    await api.delete(PODS, MODEL_POD, grace_seconds=0, namespace=namespace)
    await api.patch(CLAIMS, MODEL.claim, {"metadata": {"finalizers": None}}, namespace=namespace)
    for resource, name in ((CLAIMS, MODEL.claim), (JOBS, MODEL.workload)):
        await api.delete(resource, name, namespace=namespace)
    for resource, name in ((RESOURCE_SLICES, f"{MODEL.node}-gpus"), (NODES, MODEL.node)):
        await api.delete(resource, name)
    await api.delete(NAMESPACE_RESOURCE, MODEL.namespace)


def _copy(model: tuple[str, str], names: dict[str, str]) -> str:
    """Return an object with other names and a uid of its own."""
    uid, text = model
    for old, new in {uid: str(uuid.uuid4()), **names}.items():
        text = text.replace(old, new)
    return text


async def put_all(objects: Iterable[tuple[str, str]], *, port: int) -> None:
    """Write objects, each with its folder, namespace and name, into etcd through its JSON gateway."""
    async with aiohttp.ClientSession(f"http://{LOOPBACK}:{port}", trust_env=False) as session:
        batch: list[dict[str, Any]] = []

        async def send() -> None:
            async with session.post("/v3/kv/txn", json={"success": batch}) as answer:
                if not answer.ok:
                    raise RuntimeError(f"etcd: {answer.status} {await answer.text()}")
            batch.clear()

        for key, text in objects:
            batch.append({"requestPut": {"key": _encode(f"/registry/{key}"), "value": _encode(text)}})
            if len(batch) == PUTS_AT_ONCE:
                await send()
        if batch:
            await send()


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _node(name: str) -> Json:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _resource_slice(on: str) -> Json:
    devices = [
        {"name": f"gpu-{index}", "attributes": {"model": {"string": "A100"}, "index": {"int": index}}}
        for index in range(DEVICES)
    ]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-gpus"},
        "spec": {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": devices},
    }


def _claim(slot: Slot) -> Json:
    exactly = {"deviceClassName": DRIVER, "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": slot.claim,
            "namespace": slot.namespace,
            "annotations": {"reserve.dra/reserved-for": f"jobs.batch/{slot.workload}"},
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def _job(namespace: str, name: str) -> Json:
    container = {"name": "main", "image": "registry.example.com/train:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": template, "completionMode": "Indexed", "completions": 1000, "parallelism": 1000},
    }
