"""Koordinator's rules for the choice of devices that no driver here follows; a pod with such a rule is refused.

A user who writes a rule relies on it: cards of one PCIe root, beside a network card, of a partition, or isolated by a
library. None can be dropped in silence.
"""

from collections.abc import Mapping
from typing import Any, Final

from dra.api.koordinator import well_known
from dra.engine.translation import gpu_requests, pod_fields
from dra.engine.translation.requests import Refusal

RULE_ANNOTATIONS: Final = (
    well_known.ANNOTATION_DEVICE_ALLOCATE_HINT,
    well_known.ANNOTATION_DEVICE_JOINT_ALLOCATE,
    well_known.ANNOTATION_GPU_PARTITION_SPEC,
)
ASKED_NAMES: Final = (*gpu_requests.GPU_NAMES, *gpu_requests.VENDOR_NAMES)
"""Resources whose devices such a rule is about."""

RULE_TEXT: Final = (
    "no driver here follows this rule; remove it, or request the cards by a ResourceClaimTemplate whose constraints "
    "(matchAttribute) say the same"
)
PROVIDER_TEXT: Final = "no driver here isolates shares of GPUs; remove the label if the pod may run without isolation"


def rule_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of the rules for devices, for pods that ask for GPUs in any form."""
    if not any(gpu_requests.asks_for(each, name) for each in pod_fields.containers(pod) for name in ASKED_NAMES):
        return []
    annotations, labels = pod_fields.annotations(pod), pod_fields.labels(pod)
    found = [Refusal(f"metadata.annotations[{name}]", RULE_TEXT) for name in RULE_ANNOTATIONS if annotations.get(name)]
    if labels.get(well_known.LABEL_GPU_ISOLATION_PROVIDER):
        found.append(Refusal(f"metadata.labels[{well_known.LABEL_GPU_ISOLATION_PROVIDER}]", PROVIDER_TEXT))
    return found
