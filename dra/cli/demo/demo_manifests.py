"""Manifests that the demo creates; `examples/shared-claim` has the same as files."""

from typing import Any, Final

NAMESPACE: Final = "demo"
DEVICE_CLASS: Final = "fabric.example.com"
SCHEDULING_GATE: Final = "reserve.dra/claim"
RESERVED_FOR: Final = "reserve.dra/reserved-for"

Manifest = dict[str, Any]


def shared_device() -> list[tuple[str, Manifest]]:
    """Return the namespace, the device class, and one device that every node reaches: (path, object)."""
    return [
        ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            {
                "metadata": {"name": DEVICE_CLASS},
                "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DEVICE_CLASS}'"}}]},
            },
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            {
                "metadata": {"name": DEVICE_CLASS},
                "spec": {
                    "driver": DEVICE_CLASS,
                    "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
                    "allNodes": True,
                    "devices": [{"name": "partition-0"}],  # one device: the second claim waits
                },
            },
        ),
    ]


def claim(name: str, *, reserved_for: Manifest | None = None, annotation: str = "") -> Manifest:
    """Return a claim on the shared device, reserved for a workload by spec.reservedFor or by the annotation."""
    spec: Manifest = {"devices": {"requests": [{"name": "fabric", "exactly": {"deviceClassName": DEVICE_CLASS}}]}}
    if reserved_for is not None:
        spec["reservedFor"] = reserved_for
    annotations = {"annotations": {RESERVED_FOR: annotation}} if annotation else {}
    return {"metadata": {"name": name, "namespace": NAMESPACE, **annotations}, "spec": spec}


def job(name: str, *, pods: int, claim_name: str, seconds: float, gated: bool) -> Manifest:
    """Return a Job whose pods all use one claim."""
    gates = {"schedulingGates": [{"name": SCHEDULING_GATE}]} if gated else {}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": {**_pod_spec(claim_name, seconds), **gates}}}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod(name: str, *, claim_name: str, seconds: float) -> Manifest:
    """Return a pod that uses a claim."""
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": _pod_spec(claim_name, seconds)}


def _pod_spec(claim_name: str, seconds: float) -> Manifest:
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "resourceClaims": [{"name": "fabric", "resourceClaimName": claim_name}],
        "containers": [
            {
                "name": "worker",
                "image": "busybox:1.37",
                "command": ["sleep", f"{seconds:g}"],
                "resources": {"claims": [{"name": "fabric"}]},
            }
        ],
    }
