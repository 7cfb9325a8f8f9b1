"""A node of eight CPUs, pods of six, and a reservation that holds five."""

import msgspec

from dra.api.reservations.model import API_VERSION, KIND
from dra.model.meta import ObjectMeta, Uid, UnstructuredObject
from dra.model.scheduling import SchedulerNode, SchedulerPod
from tests.dra.api.reservations.manifests import manifest

NODE = msgspec.convert(
    {"metadata": {"name": "n1", "uid": "n"}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}},
    SchedulerNode,
)


def pod(name="p", *, node="n1", **status):
    container = {"name": "c", "resources": {"requests": {"cpu": "6"}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "5"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}, "status": status}, SchedulerPod
    )


def reservation(*, uid="uid-r", phase="Available", **spec):
    content = manifest(**spec) | {"status": {"phase": phase, "nodeName": "n1", "allocatable": {"cpu": "5"}}}
    content["metadata"] |= {"uid": uid, "resourceVersion": "5"}
    meta = ObjectMeta(name=content["metadata"]["name"], uid=Uid(uid), resource_version="5")
    return UnstructuredObject(metadata=meta, content=content)


def owner(name="owner", *, app="web", cpu="2"):
    """A pod that waits, with a label that reservations name."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": app}}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container]}}, SchedulerPod)


def placeholder(*, uid="uid-placeholder", node=""):
    """The pod that finds a node for the reservation."""
    reference = {"apiVersion": API_VERSION, "kind": KIND, "name": "demo", "uid": "uid-r", "controller": True}
    content = msgspec.to_builtins(pod("reservation-uid-r", node=node))
    content["metadata"] |= {"uid": uid, "ownerReferences": [reference]}
    content["spec"] |= {"priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}
    return msgspec.convert(content, SchedulerPod)
