"""A node of eight CPUs, pods of six, and a reservation that holds five."""

import msgspec

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
