"""A bound pod, the claim that it names, and the claim's half of a GPU."""

from typing import Any

import msgspec

from dra.model.claims import ResourceClaim
from dra.model.pods import Pod

HALF = {
    "request": "gpu",
    "driver": "gpu.reserve.dra",
    "pool": "n0",
    "device": "gpu-0",
    "shareID": "s",
    "consumedCapacity": {"memory": "8Gi", "core": "50"},
}


def bound_pod(name: str = "p", *claims: str, node: str = "n0", annotations: dict[str, str] | None = None) -> Pod:
    """Return a pod on a node that names claims."""
    document = {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"nodeName": node, "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(document, Pod)


def allocated_claim(name: str = "c", *results: dict[str, Any]) -> ResourceClaim:
    """Return a claim with its devices, half a GPU by default."""
    status = {"allocation": {"devices": {"results": list(results or [HALF])}}}
    return msgspec.convert({"metadata": {"name": name, "namespace": "ml"}, "status": status}, ResourceClaim)
