"""What the story creates. `examples/shared-claim` has the same as files."""

from typing import Any, Final

NAMESPACE: Final = "demo"
CLASS: Final = "fabric.example.com"
GATE: Final = "reserve.dra/claim"
RESERVED_FOR: Final = "reserve.dra/reserved-for"

Object = dict[str, Any]


def shared_device() -> list[tuple[str, Object]]:
    """Return one device that every node reaches, its class, and the namespace: (path, object)."""
    return [
        ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            {
                "metadata": {"name": CLASS},
                "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{CLASS}'"}}]},
            },
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            {
                "metadata": {"name": CLASS},
                "spec": {
                    "driver": CLASS,
                    "pool": {"name": "fabric", "generation": 1, "resourceSliceCount": 1},
                    "allNodes": True,
                    "devices": [{"name": "partition-0"}],  # one: whoever comes second waits
                },
            },
        ),
    ]


def claim(name: str, *, reserved_for: Object | None = None, annotation: str = "") -> Object:
    """Return a claim on the shared device, reserved for a workload by its field or by our annotation."""
    spec: Object = {"devices": {"requests": [{"name": "fabric", "exactly": {"deviceClassName": CLASS}}]}}
    if reserved_for is not None:
        spec["reservedFor"] = reserved_for
    annotations = {"annotations": {RESERVED_FOR: annotation}} if annotation else {}
    return {"metadata": {"name": name, "namespace": NAMESPACE, **annotations}, "spec": spec}


def job(name: str, *, pods: int, claim_name: str, seconds: float, gated: bool) -> Object:
    """Return a Job whose pods all use one claim."""
    gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": {**_pod_spec(claim_name, seconds), **gates}}}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod(name: str, *, claim_name: str, seconds: float) -> Object:
    """Return a pod that uses a claim."""
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": _pod_spec(claim_name, seconds)}


def _pod_spec(claim_name: str, seconds: float) -> Object:
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
