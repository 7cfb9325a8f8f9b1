"""The objects that scenarios are made of, as a user would write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.fake_nodes import BROKEN, FAKE
from tests.cluster.kubelet import REAL
from tests.scenarios.resources import POD_GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = dict[str, Any]

RESERVED_FOR: Final = "reserve.dra/reserved-for"
"""The annotation that names the workload a claim is reserved for."""

RESERVED_FOR_UID: Final = "reserve.dra/reserved-for-uid"
"""The annotation that tells it from others of the same name; left out when the claim comes first."""

FORCE_RELEASE: Final = "reserve.dra/force-release"
"""The annotation by which a person vouches that a claim is not used any more; its value is the claim's uid."""

PRE_LIST: Final = "reserve.dra/pre-list"
WHEN_SUSPENDED: Final = "reserve.dra/when-suspended"
"""The annotation by which a pod asks to be listed before it is scheduled, whatever its claim says."""

GATE: Final = "reserve.dra/claim"
"""The scheduling gate that our controller opens."""

RUN_SECONDS: Final = "scenario.dra/run-seconds"
EXIT_CODE: Final = "scenario.dra/exit-code"
HOLD: Final = "scenario.dra/hold"

IMAGE: Final = "busybox:1.37"
"""Never pulled by kwok, and there already on a real node of ours: tests/cluster/images.py."""


_TOLERATIONS: Final = [{"key": FAKE, "operator": "Exists"}]

ON_SOUND_NODES: Final[Json] = {"nodeSelector": {FAKE: "true"}, "tolerations": _TOLERATIONS}
"""Only fake nodes take scenarios' pods, and on a real cluster they take nobody else's."""

ON_BROKEN_NODES: Final[Json] = {
    "nodeSelector": {BROKEN: "true"},
    "tolerations": [*_TOLERATIONS, {"key": BROKEN, "operator": "Exists"}],
}
"""For `PodShape.spec`: the pod is scheduled to a node where it never starts."""

ON_REAL_NODE: Final[Json] = {
    "nodeSelector": {REAL: "true"},
    "tolerations": [{"key": REAL, "operator": "Exists"}],
    "hostNetwork": True,
}
"""For `PodShape.spec`: the pod really runs, on the node of the fixture `real_node`, which has no network for pods."""


@dataclass(frozen=True, kw_only=True)
class PodShape:
    """What a pod is like, whoever makes it; the labels are understood by tests/cluster/kwok/stages.yaml."""

    claim: str | None = None
    """A ResourceClaim that it shares with others."""
    claim_template: str | None = None
    """A ResourceClaimTemplate from which it gets a claim of its own."""
    run_seconds: int | None = None
    """How long it runs; without, until it is deleted."""
    exit_code: int = 0
    script: str = ""
    """What its shell does first, where it really runs."""
    hold: bool = False
    """Whether its node never gets its sandbox ready, until the label is taken away."""
    gated: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    """The PodGroup that it belongs to."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the pod's spec, e.g. nodeName or priorityClassName."""


def claim(
    name: str,
    *,
    device_class: str,
    reserved_for: str | None = None,
    uid: str | None = None,
    devices: int = 1,
    tolerations: Iterable[Json] = (),
) -> Json:
    """Return a ResourceClaim for some devices; `reserved_for` as in the annotation, e.g. jobs.batch/train."""
    annotations = {RESERVED_FOR: reserved_for} if reserved_for else {}
    if uid:
        annotations[RESERVED_FOR_UID] = uid
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "annotations": annotations},
        "spec": _claim_spec(device_class, devices, tolerations),
    }


def claim_template(name: str, *, device_class: str, devices: int = 1) -> Json:
    """Return a ResourceClaimTemplate for some devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": _claim_spec(device_class, devices)},
    }


def pod(name: str, shape: PodShape) -> Json:
    """Return one pod."""
    template = _pod_template(shape, restart_policy="Never")
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": name}}


def pods(prefix: str, count: int, shape: PodShape) -> list[Json]:
    """Return `count` pods, PREFIX-0 and so on."""
    return [pod(f"{prefix}-{number}", shape) for number in range(count)]


def pod_group(name: str, shape: PodShape) -> Json:
    """Return a PodGroup whose pods are of that shape and share its claim."""
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "device", **_claim_source(shape)}]},
    }


def job(name: str, shape: PodShape, *, parallelism: int = 1, completions: int | None = None) -> Json:
    """Return a Job that is complete when all its pods have ended well."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism if completions is None else completions,
            "backoffLimit": 0,
            "template": _pod_template(shape, restart_policy="Never"),
        },
    }


def deployment(name: str, shape: PodShape, *, replicas: int = 1) -> Json:
    """Return a Deployment; its pods are labelled app: NAME."""
    template = _pod_template(shape, restart_policy="Always")
    template["metadata"]["labels"]["app"] = name
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def priority_class(name: str, value: int = 1000) -> Json:
    """Return a PriorityClass whose pods go first, and drive nobody away."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "Never",
    }


def device_class(name: str, *, driver: str) -> Json:
    """Return the DeviceClass of all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [selector]},
    }


def resource_slice(name: str, *, driver: str, devices: Iterable[str], node: str | None = None) -> Json:
    """Return a slice that is a whole pool: devices of one node or, without `node`, devices that every node reaches."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": device} for device in devices],
            **({"allNodes": True} if node is None else {"nodeName": node}),
        },
    }


def _claim_spec(device_class: str, devices: int, tolerations: Iterable[Json] = ()) -> Json:
    exactly = {"deviceClassName": device_class, "count": devices, "tolerations": [*tolerations]}
    return {"devices": {"requests": [{"name": "device", "exactly": exactly}]}}


def _pod_template(shape: PodShape, *, restart_policy: str) -> Json:
    container: Json = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": _command(shape)}
    spec: Json = {
        "containers": [container],
        "restartPolicy": restart_policy,
        "terminationGracePeriodSeconds": 1,  # with 0 the object goes before its kubelet has ended the pod
        "automountServiceAccountToken": False,
        **ON_SOUND_NODES,
        **shape.spec,
    }
    if source := _claim_source(shape):
        spec["resourceClaims"] = [{"name": "device", **source}]
        container["resources"] = {"claims": [{"name": "device"}]}
    if shape.group is not None:
        spec["schedulingGroup"] = {"podGroupName": shape.group}
    if shape.gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {"metadata": {"labels": _labels(shape), "annotations": dict(shape.annotations)}, "spec": spec}


def _claim_source(shape: PodShape) -> Json:
    if shape.claim is not None:
        return {"resourceClaimName": shape.claim}
    if shape.claim_template is not None:
        return {"resourceClaimTemplateName": shape.claim_template}
    return {}


def _command(shape: PodShape) -> list[str]:
    duration = "infinity" if shape.run_seconds is None else shape.run_seconds
    return ["sh", "-c", "\n".join(filter(None, (shape.script, f"sleep {duration}; exit {shape.exit_code}")))]


def _labels(shape: PodShape) -> dict[str, str]:
    labels = dict(shape.labels)
    if shape.run_seconds is not None:
        labels |= {RUN_SECONDS: str(shape.run_seconds), EXIT_CODE: str(shape.exit_code)}
    if shape.hold:
        labels[HOLD] = "true"
    return labels
