"""Examples of frequent commands, for the help of each command."""

from collections.abc import Mapping, Sequence
from typing import Final

EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "explain": (
        "kubectl dra explain claim train -n ml",
        "kubectl dra why pod/train-0 -n ml",
        "kubectl dra explain device gpu.example.com/node-1/gpu-0",
        "kubectl dra explain claim train -n ml -o jsonpath='{.next}'",
        "kubectl dra explain reason WorkloadNotFound",
    ),
    "get": (
        "kubectl dra get claims -A",
        "kubectl dra get claims -n ml -l team=vision -w",
        "kubectl dra get devices --field-selector state=Free",
        "kubectl dra get reservations",
    ),
    "tree": ("kubectl dra tree -n ml", "kubectl dra tree -A -l team=vision"),
    "usage": ("kubectl dra usage --by workload", "kubectl dra usage --by node -o csv"),
    "reservations": ("kubectl dra reservations", "kubectl dra reservations -o wide --sort-by .metadata.name"),
    "audit": (
        "kubectl dra audit",
        "kubectl dra audit --settle 5 --fail-on error",
        "kubectl dra audit -o json --from cluster.tgz",
    ),
    "simulate": (
        "kubectl dra simulate -f job.yaml -n ml",
        "kubectl dra simulate -f job.yaml --add-nodes gpu-node-1=3 --cordon gpu-node-2",
        "kubectl dra simulate -f job.yaml --drop-reservation ml/train",
    ),
    "apply": ("kubectl dra apply -f claim.yaml", "kubectl dra apply -f claim.yaml --dry-run=client -o yaml"),
    "reserve": (
        "kubectl dra reserve train --cpu 6 --memory 20Gi --owner jobs.batch/train --ttl 1h",
        "kubectl dra reserve web --cpu 2 -l app=web -n shop --dry-run=client -o yaml",
    ),
    "release": ("kubectl dra release claim train -n ml --dry-run", "kubectl dra release claim train -n ml"),
    "wait": ("kubectl dra wait claim train -n ml --for=released --timeout=5m",),
    "bundle": ("kubectl dra bundle --file cluster.tgz", "kubectl dra explain claim train -n ml --from cluster.tgz"),
    "preflight": (
        "kubectl dra preflight",
        "kubectl dra preflight --mode replace --probe",
        "kubectl dra preflight --missing-rights | kubectl apply -f -",
    ),
    "downgrade": ("kubectl dra downgrade", "kubectl dra downgrade --apply"),
    "adopt": ("kubectl dra adopt",),
}


def examples_epilog(name: str) -> str:
    """Return the examples for the end of a command's help; a backspace keeps click from rewrapping the paragraph."""
    lines = EXAMPLES.get(name, ())
    return "\n".join(("\b", "Examples:", *(f"  {each}" for each in lines))) if lines else ""
