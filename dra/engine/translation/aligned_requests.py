"""Requests for one NUMA node: the annotation numa-topology-spec joins a pod's entries into one.

A constraint holds within one claim. So the CPUs and the cards of a pod that asks for one NUMA node are requests of one
claim, and each container refers to its own request of the claim. A pod with the policy BestEffort has such a claim only
if it asks for both: the driver takes CPUs of one NUMA node anyway where these suffice, and the cards of one container
prefer one NUMA node.

Neither memory nor the CPUs of pods that are not bound are aligned: no driver here allocates these.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dra.api.koordinator import resource_spec, well_known
from dra.engine.translation import cpu_requests, gpu_requests, pod_fields
from dra.engine.translation.cpu_requests import ALIGNED_CLAIM_NAME
from dra.engine.translation.requests import (
    MAX_ALIGNED_CONTAINERS,
    AlignedRequest,
    ClaimEntry,
    CpuBinding,
    GpuShare,
    Refusal,
)
from dra.model.koordinator_classes import NumaTopologyPolicy

POLICY_PATH: Final = (
    f"{cpu_requests.annotation_path(well_known.ANNOTATION_NUMA_TOPOLOGY_SPEC)}.{resource_spec.NUMA_TOPOLOGY_POLICY}"
)
TOO_MANY_TEXT: Final = (
    f"at most {MAX_ALIGNED_CONTAINERS} containers with GPUs can be on one NUMA node; "
    "remove the policy, or ask for GPUs in fewer containers"
)

STRICT_POLICIES: Final = (NumaTopologyPolicy.RESTRICTED, NumaTopologyPolicy.SINGLE_NUMA_NODE)
"""Policies for which a pod that cannot be aligned must not run."""
VENDOR_TEXT: Final = (
    "whole cards by this name have a claim of Kubernetes' own, which no policy can align; "
    f"ask for {gpu_requests.PREFIX}{gpu_requests.GPU}: 100 for each card, or for the policy BestEffort"
)


def alignment_refusals(pod: Mapping[str, Any]) -> list[Refusal]:
    """Return the refusals of a NUMA policy: for too many containers, then for cards that cannot be aligned."""
    policy, containers = cpu_requests.numa_policy(pod), tuple(pod_fields.containers(pod))
    asking = sum(bool(gpu_requests.asked_names(fields)) for fields in containers)
    refusals = []
    if asking > MAX_ALIGNED_CONTAINERS and policy is not NumaTopologyPolicy.NONE:
        refusals.append(Refusal(POLICY_PATH, TOO_MANY_TEXT))
    if policy in STRICT_POLICIES:
        for container in containers:
            names = [name for name in gpu_requests.VENDOR_NAMES if gpu_requests.asks_for(container, name)]
            refusals += [Refusal(f"{container.path}.limits[{name}]", VENDOR_TEXT) for name in names[:1]]
    return refusals


def aligned_entries(
    pod: Mapping[str, Any], *, cpus: ClaimEntry | None, gpus: Sequence[ClaimEntry]
) -> tuple[ClaimEntry, ...]:
    """Return the entries of a pod without refusals: one for all that its NUMA policy aligns, or those given."""
    separate = (*([cpus] if cpus else []), *gpus)
    policy = cpu_requests.numa_policy(pod)
    if not separate or not aligns(policy, has_cpus=cpus is not None, has_gpus=bool(gpus)):
        return separate
    binding = cpus.request if cpus is not None else None
    request = AlignedRequest(
        policy=policy,
        cpus=binding if isinstance(binding, CpuBinding) else None,
        gpus=tuple((entry.containers[0], entry.request) for entry in gpus if isinstance(entry.request, GpuShare)),
    )
    lent = tuple((path, entry.containers[0]) for entry in gpus for path in entry.containers[1:])
    with_cards = sorted(path for entry in gpus for path in entry.containers)
    containers = cpus.containers if cpus is not None else tuple(with_cards)
    return (ClaimEntry(ALIGNED_CLAIM_NAME, request, containers, lent=lent),)


def aligns(policy: NumaTopologyPolicy, *, has_cpus: bool, has_gpus: bool) -> bool:
    """Return whether a pod with a NUMA policy has one claim for all that it asks for."""
    if policy is NumaTopologyPolicy.BEST_EFFORT:
        return has_cpus and has_gpus
    return policy is not NumaTopologyPolicy.NONE
