"""Pods with claims of their own Jobs in a real kube-apiserver's etcd, as scheduler and kubelets leave them.

The pods are those of `bench.world`; ten of a node use a claim together and are listed in it. So neither
kube-controller-manager's claim controller nor this project's has anything to write.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench import stream
from bench.page_cluster import NAMESPACES
from bench.page_objects import DRIVER, put_all
from tests.scenarios.api import ApiError
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import CLAIMS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.scenarios.api import Api, Json
    from tests.scenarios.resources import Resource

CLAIM_PODS: Final = 10
"""Pods that use a claim together."""
JOB_PODS: Final = 1_000
DEVICES: Final = 16
"""Devices of a node."""
CACHED_WITHIN: Final = 600.0

_STAMP: Final = "2026-11-20T12:00:00Z"


async def write(api: Api, *, pods: int, nodes: int, etcd_port: int) -> None:
    """Write nodes, Jobs, claims and pods; return when the API server's cache has them."""
    for namespace in NAMESPACES:
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    jobs = [await api.create(_job(number, pods=pods), namespace=_namespace(number)) for number in range(_jobs(pods))]
    uids = [job["metadata"]["uid"] for job in jobs]
    await put_all(objects(uids, pods=pods, nodes=nodes), port=etcd_port)
    last = pods - 1
    for resource, name in ((CLAIMS, _claim_name(last // CLAIM_PODS)), (PODS, _pod_name(last))):
        namespace = _namespace(last // JOB_PODS)
        known = partial(_is_cached, api, resource, name, namespace=namespace)
        await eventually(known, within=CACHED_WITHIN, saying=f"the cache of the API server has {name}")


async def _is_cached(api: Api, resource: Resource, name: str, *, namespace: str) -> bool:
    try:
        await api.request("GET", resource.path(namespace=namespace, name=name), query={"resourceVersion": "0"})
    except ApiError:
        return False
    return True


def objects(job_uids: list[str], *, pods: int, nodes: int) -> Iterator[tuple[str, str]]:
    """Yield nodes, claims and pods of these Jobs: the key in etcd, and the JSON."""
    for number in range(nodes):
        yield f"minions/{_node_name(number)}", json.dumps(_node(number))
    for number in range(pods // CLAIM_PODS):
        namespace = _namespace(number * CLAIM_PODS // JOB_PODS)
        claim = _claim(number, namespace=namespace, nodes=nodes)
        yield f"resourceclaims/{namespace}/{_claim_name(number)}", json.dumps(claim)
    for number in range(pods):
        namespace, job_uid = _namespace(number // JOB_PODS), job_uids[number // JOB_PODS]
        pod = _pod(number, namespace=namespace, job_uid=job_uid, nodes=nodes)
        yield f"pods/{namespace}/{_pod_name(number)}", json.dumps(pod, separators=(",", ":"))


def _pod(number: int, *, namespace: str, job_uid: str, nodes: int) -> Json:
    """Return a pod of `bench.world` that runs, with a Job and a claim among many."""
    text = stream.pod(number, state="ready", version=0).decode().replace(stream.JOB_UID, job_uid)
    pod: dict[str, Any] = json.loads(text)
    job = _job_name(number // JOB_PODS)
    metadata, claim = pod["metadata"], number // CLAIM_PODS
    del metadata["resourceVersion"]  # that of etcd
    metadata |= {
        "name": _pod_name(number),
        "namespace": namespace,
        "generateName": f"{job}-{number % JOB_PODS}-",
        "labels": dict.fromkeys(metadata["labels"], job) | {"batch.kubernetes.io/controller-uid": job_uid},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(number % JOB_PODS)},
    }
    metadata["ownerReferences"][0]["name"] = job
    pod["spec"]["nodeName"] = _node_name(claim % nodes)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": _claim_name(claim)}]
    return pod


def _claim(number: int, *, namespace: str, nodes: int) -> Json:
    node = _node_name(number % nodes)
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{number // nodes % DEVICES}"}
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    first = number * CLAIM_PODS
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": _claim_name(number),
            "namespace": namespace,
            "uid": f"{number:08x}-0000-4000-9000-000000000000",
            "creationTimestamp": _STAMP,
            "finalizers": ["resource.kubernetes.io/delete-protection"],
        },
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 1}}]}},
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            },
            "reservedFor": [
                {"resource": "pods", "name": _pod_name(pod), "uid": stream.uid(pod)}
                for pod in range(first, first + CLAIM_PODS)
            ],
        },
    }


def _node(number: int) -> Json:
    size = {"cpu": "128", "memory": "512Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": _node_name(number),
            "uid": f"{number:08x}-0000-4000-a000-000000000000",
            "creationTimestamp": _STAMP,
            "labels": {"kubernetes.io/hostname": _node_name(number), "kubernetes.io/os": "linux"},
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "allocatable": size,
            "capacity": size,
        },
    }


def _job(number: int, *, pods: int) -> Json:
    """Return a Job that has all of its pods, so that its controller creates none."""
    container = {"name": "main", "image": "registry.example.com/train:v1"}
    size = min(JOB_PODS, pods - number * JOB_PODS)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": _job_name(number), "namespace": _namespace(number)},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
        },
    }


def _jobs(pods: int) -> int:
    return -(-pods // JOB_PODS)


def _namespace(job: int) -> str:
    return NAMESPACES[job % len(NAMESPACES)]


def _job_name(number: int) -> str:
    return f"train-{number}"


def _node_name(number: int) -> str:
    return f"node-{number:04}"


def _claim_name(number: int) -> str:
    return f"gpu-{number:05}"


def _pod_name(number: int) -> str:
    return f"{_job_name(number // JOB_PODS)}-{number % JOB_PODS}-x7k2p"
