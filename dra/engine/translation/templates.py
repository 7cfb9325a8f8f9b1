"""ResourceClaimTemplates for requests in Koordinator's form, of the requests for devices in `device_requests`.

CPUs and cards of one NUMA node are requests of one claim, with a constraint on the attribute ``numaNode`` that both
drivers publish. The CPUs are requested twice: of the node's device, from which all pods take theirs, and of the device
of the NUMA node.
"""

from collections.abc import Sequence
from typing import Any, Final

from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.engine.translation import device_requests
from dra.engine.translation.device_requests import NEAR, NUMA_NODE, NUMA_REQUEST
from dra.engine.translation.requests import AlignedRequest, CpuBinding, GpuShare, Request, gpu_request_name
from dra.model.koordinator_classes import NumaTopologyPolicy

_GPU_REQUEST: Final = "gpu"


def template_manifest(
    name: str,
    namespace: str,
    request: Request,
    *,
    card_sizes: Sequence[int] = (),
    default_policy: CpuBindPolicy = CpuBindPolicy.FULL_PCPUS,
) -> dict[str, Any] | None:
    """Return the template for a request; None if a ratio is requested and no card is published.

    `card_sizes`: bytes of memory of each size of card in the cluster, the most frequent first; a template has
    alternatives for eight of them. `default_policy`: the bind policy of pods that name none.
    """
    match request:
        case CpuBinding():
            devices: dict[str, Any] | None = _cpu_devices(request.resolved(default_policy))
        case GpuShare():
            devices = _gpu_devices(request, card_sizes)
        case AlignedRequest():
            devices = _aligned_devices(request, card_sizes, default_policy)
    if devices is None:
        return None
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {well_known.LABEL_MADE_FROM: well_known.KOORDINATOR},
        },
        "spec": {"spec": {"devices": devices}},
    }


def _cpu_devices(binding: CpuBinding) -> dict[str, Any]:
    return {"requests": [device_requests.cpu_request(binding)], "config": [device_requests.cpu_config(binding)]}


def _gpu_devices(share: GpuShare, card_sizes: Sequence[int]) -> dict[str, Any] | None:
    made = device_requests.card_request(_GPU_REQUEST, share, card_sizes=card_sizes)
    if made is None:
        return None
    return {"requests": [made.request]} | ({"constraints": made.constraints} if made.constraints else {})


def _aligned_devices(
    request: AlignedRequest, card_sizes: Sequence[int], default_policy: CpuBindPolicy
) -> dict[str, Any] | None:
    policy, binding = request.policy, request.cpus.resolved(default_policy) if request.cpus is not None else None
    requests: list[dict[str, Any]] = []
    constraints: list[dict[str, Any]] = []
    config: list[dict[str, Any]] = []
    near: list[str] = []
    if binding is not None:
        requests += [
            device_requests.cpu_request(binding, numa_policy=policy),
            device_requests.numa_request(binding, policy),
        ]
        config.append(device_requests.cpu_config(binding))
        near.append(NUMA_REQUEST if policy is NumaTopologyPolicy.SINGLE_NUMA_NODE else f"{NUMA_REQUEST}/{NEAR}")
    for path, share in request.gpus:
        made = device_requests.card_request(gpu_request_name(path), share, card_sizes=card_sizes, policy=policy)
        if made is None:
            return None
        requests.append(made.request)
        constraints += made.constraints
        near += made.near
    cards = sum(share.cards for _, share in request.gpus)
    if cards + (binding is not None) > 1:  # a device alone is on one NUMA node, also if that is not known
        constraints.append({"requests": near, "matchAttribute": NUMA_NODE})
    devices: dict[str, Any] = {"requests": requests}
    return devices | {key: value for key, value in (("constraints", constraints), ("config", config)) if value}
