"""Koordinator's rules for the choice of devices: a required topology scope is translated, other rules are refused.

A user who writes a rule relies on it: cards of one PCIe root, beside a network card, of a partition, or isolated by a
library. None can be dropped in silence.

In Koordinator, the scope ``{"gpu": {"requiredTopologyScope": …}}`` holds for all cards of a pod, and several cards must
be whole. A constraint (matchAttribute) says the same within a claim, and so of the cards of one container. One card
is in any scope.

An admission policy reads the annotation as well, and CEL cannot parse JSON; so the grammar is a regular expression that
Python and RE2 read alike.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dra.api.koordinator import well_known
from dra.api.koordinator.resource_spec import MAX_LENGTH
from dra.engine.translation import cpu_requests, gpu_requests, pod_fields
from dra.engine.translation.requests import ClaimEntry, DeviceTopologyScope, GpuShare, Refusal
from dra.model.koordinator_classes import NumaTopologyPolicy

HINT: Final = well_known.ANNOTATION_DEVICE_ALLOCATE_HINT
UNTRANSLATED_ANNOTATIONS: Final = (
    well_known.ANNOTATION_DEVICE_JOINT_ALLOCATE,
    well_known.ANNOTATION_GPU_PARTITION_SPEC,
)
RULE_ANNOTATIONS: Final = (HINT, *UNTRANSLATED_ANNOTATIONS)
ASKED_NAMES: Final = (*gpu_requests.GPU_NAMES, *gpu_requests.VENDOR_NAMES)
"""Resources whose devices such a rule is about."""

ONE_DEVICE: Final = "Device"
"""Scope of a single card."""
SCOPES: Final = (ONE_DEVICE, *DeviceTopologyScope)
"""Scopes that say something of cards; Koordinator's ``Node`` holds for any."""

_SPACE: Final = r"[ \t\r\n]*"
_SCOPE_PATTERN: Final = rf'"requiredTopologyScope"{_SPACE}:{_SPACE}(?:"(?:{"|".join((*SCOPES, "Node"))})?"|null)'
_GPU_PATTERN: Final = rf'"gpu"{_SPACE}:{_SPACE}\{{{_SPACE}(?:{_SCOPE_PATTERN}{_SPACE})?\}}'
HINT_PATTERN: Final = rf"{_SPACE}\{{{_SPACE}(?:{_GPU_PATTERN}{_SPACE})?\}}{_SPACE}"
_HINT: Final = re.compile(HINT_PATTERN)

_TEMPLATE_TEXT: Final = "request the cards by a ResourceClaimTemplate whose constraints (matchAttribute) say the same"
RULE_TEXT: Final = f"no driver here follows this rule; remove it, or {_TEMPLATE_TEXT}"
HINT_TEXT: Final = (
    'of these rules, {"gpu":{"requiredTopologyScope":"PCIe"}} alone can be followed, with one of the scopes '
    f"{', '.join((*SCOPES, 'Node'))}; remove the others, or {_TEMPLATE_TEXT}"
)
SCOPE_PATH: Final = f"{cpu_requests.annotation_path(HINT)}.gpu.requiredTopologyScope"
SCOPE_TEXT: Final = (
    f"{' and '.join(DeviceTopologyScope)} can be followed for whole cards of one container "
    f"({gpu_requests.PREFIX}{gpu_requests.GPU}: 100 for each) of a pod without numaTopologyPolicy "
    f"{NumaTopologyPolicy.BEST_EFFORT.value}, {ONE_DEVICE} for one card; change the request, or {_TEMPLATE_TEXT}"
)
PROVIDER_TEXT: Final = "no driver here isolates shares of GPUs; remove the label if the pod may run without isolation"


def rule_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of the rules for devices, for pods that ask for GPUs in any form."""
    if not any(
        gpu_requests.asks_for(container, name) for container in pod_fields.containers(pod) for name in ASKED_NAMES
    ):
        return []
    annotations, labels = pod_fields.annotations(pod), pod_fields.labels(pod)
    refusals = []
    if not is_known(annotations.get(HINT, "")):
        refusals.append(Refusal(cpu_requests.annotation_path(HINT), HINT_TEXT))
    elif required_scope(pod) and not gpu_requests.gpu_refusals(pod) and not _holds(pod):
        refusals.append(Refusal(SCOPE_PATH, SCOPE_TEXT))
    refusals += [
        Refusal(cpu_requests.annotation_path(name), RULE_TEXT)
        for name in UNTRANSLATED_ANNOTATIONS
        if annotations.get(name)
    ]
    if labels.get(well_known.LABEL_GPU_ISOLATION_PROVIDER):
        refusals.append(Refusal(f"metadata.labels[{well_known.LABEL_GPU_ISOLATION_PROVIDER}]", PROVIDER_TEXT))
    return refusals


def is_known(hint: str) -> bool:
    """Return whether a device-allocate-hint has no other rule than a scope for GPUs; an empty one has none."""
    return not hint or (len(hint) <= MAX_LENGTH and _HINT.fullmatch(hint) is not None)


def required_scope(pod: Mapping[str, Any]) -> str:
    """Return the scope, of `SCOPES`, that a known hint requires for the cards of a pod; empty for none."""
    hint = pod_fields.annotations(pod).get(HINT, "")
    return next((scope for scope in SCOPES if f'"{scope}"' in hint), "")


def scoped_entries(pod: Mapping[str, Any], entries: Sequence[ClaimEntry]) -> list[ClaimEntry]:
    """Return the entries for the GPUs of a pod without refusals, with the scope that the pod requires."""
    scope = required_scope(pod)
    return [
        msgspec.structs.replace(entry, request=msgspec.structs.replace(share, scope=DeviceTopologyScope(scope)))
        if scope and isinstance(share := entry.request, GpuShare) and share.cards > 1
        else entry
        for entry in entries
    ]


def _holds(pod: Mapping[str, Any]) -> bool:
    """Return whether claims can hold the scope for all cards of a pod whose requests for GPUs have no refusals."""
    if any(
        gpu_requests.asks_for(container, name)
        for container in pod_fields.containers(pod)
        for name in gpu_requests.VENDOR_NAMES
    ):
        return False
    shares = [entry.request for entry in gpu_requests.gpu_entries(pod) if isinstance(entry.request, GpuShare)]
    return sum(share.cards for share in shares) <= 1 or (
        required_scope(pod) != ONE_DEVICE
        and len(shares) == 1
        and shares[0].is_whole
        and cpu_requests.numa_policy(pod) is not NumaTopologyPolicy.BEST_EFFORT
    )
