"""Clusters of a round in few words."""

import msgspec

from dra.api.migration.model import parse_pod_migration_job
from dra.engine.descheduling.cluster_objects import ClusterObjects
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.model.meta import ObjectMeta, Uid, UnstructuredObject
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.migration.examples import NOW, READY, at

__all__ = ["NOW", "at"]


def node(
    name="n1", *, cpu="4", labels=None, taints=(), ready=True, unschedulable=False, annotations=None, **allocatable
):
    """Return a node; a cordoned one has the taint, as in a real cluster."""
    cordon = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}] if unschedulable else []
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                "annotations": annotations or {},
            },
            "spec": {"unschedulable": unschedulable, "taints": [*cordon, *taints]},
            "status": {
                "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110", **allocatable},
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        },
        SchedulerNode,
    )


def pod(
    name="p",
    on="n1",
    *,
    cpu="1",
    owner="web",
    labels=None,
    namespace="ns",
    created=0,
    metadata=None,
    status=None,
    **spec,
):
    """Return a running pod on a node (none: pending), of ReplicaSet `owner`; `spec` has further fields of the spec."""
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{namespace}-{name}",
                "creationTimestamp": at(created),
                "labels": {"app": owner, **(labels or {})},
                "ownerReferences": owners if owner else [],
                **(metadata or {}),
            },
            "spec": {"nodeName": on, "containers": [{"name": "c", "image": "i", "resources": requests}], **spec},
            "status": {"phase": "Running" if on else "Pending", "conditions": READY if on else [], **(status or {})},
        },
        DeschedulingPod,
    )


def reservation(name="r", on="n1", *, cpu="1", owners=None, phase="Available", uid="", **spec):
    """Return a Reservation that holds CPUs on a node, for the pods of ReplicaSet `web`."""
    content = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "labels": {}},
        "spec": {
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}},
            "owners": owners or [{"controller": {"kind": "ReplicaSet", "name": "web", "namespace": "ns"}}],
            "ttl": "24h",
            **spec,
        },
        "status": {"phase": phase, "nodeName": on, "allocatable": {"cpu": cpu}} if on else {"phase": "Pending"},
    }
    return UnstructuredObject(metadata=ObjectMeta(name=name, uid=Uid(f"uid-{name}")), content=content)


def job(of, *, name="j", phase="Running", uid="", node="", reservation="", paused=False, mode=""):
    """Return a PodMigrationJob of a pod."""
    options = {"reservationOptions": {"reservationRef": {"name": reservation}}} if reservation else {}
    return parse_pod_migration_job(
        {
            "metadata": {"name": name, "uid": uid or f"uid-{name}"},
            "spec": {
                "podRef": {"namespace": of.metadata.namespace, "name": of.metadata.name, "uid": of.metadata.uid},
                "paused": paused,
                **({"mode": mode} if mode else {}),
                **options,
            },
            "status": {"phase": phase, "nodeName": node},
        }
    )


def snapshot(nodes, pods=(), *, now=NOW, memory=None, **objects):
    """Return the snapshot of a cluster; `objects` are further fields of `ClusterObjects`."""
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in objects.items()}
    return Snapshot(ClusterObjects(nodes=tuple(nodes), pods=tuple(pods), **given), now=now, memory=memory)
