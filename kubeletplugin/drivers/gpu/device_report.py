"""The GPUs of a node as Koordinator's kind Device describes them, and the labels of their Node.

A partitioned GPU is left out, since no pod can get it as a whole. The socket of a GPU is not known; Koordinator's agent
reports -1, too. The report knows GPUs by minor alone: a lost GPU whose minor another GPU has now is left out.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dra.api.koordinator import well_known
from dra.api.koordinator.device import (
    DeviceAllocation,
    DeviceAllocationItem,
    DeviceInfo,
    DeviceTopology,
    DeviceType,
)
from kubeletplugin.contract import DeviceReport, PreparedClaim
from kubeletplugin.drivers.gpu.devices import CORE_CAPACITY, DRIVER_NAME, format_quantity
from kubeletplugin.inventory.gpus import GPU_LOST, Gpu

_HEALTHY: Final = "Healthy"
_REASONS: Final = {"xid": "XidCriticalError"}
"""Kind of fault → reason, where Koordinator's agent has one."""
_MESSAGE_MAX: Final = 1024

_UNKNOWN_SOCKET: Final = -1
_WHOLE_RATIO: Final = "100"
_LABEL_VALUE_MAX: Final = 63
_DEVICE_NAME: Final = re.compile(r"gpu-(\d{1,9})")


def device_report(gpus: Iterable[Gpu], prepared: Iterable[PreparedClaim]) -> DeviceReport:
    """Return the report of a node with these GPUs and prepared claims."""
    whole = [gpu for gpu in gpus if not gpu.partitioning]
    by_minor = {gpu.minor: gpu for gpu in sorted(whole, key=_is_present)}
    whole = [gpu for gpu in whole if by_minor[gpu.minor] is gpu]
    return DeviceReport(
        devices=tuple(_device_info(gpu) for gpu in whole),
        allocations=_allocations(by_minor, prepared),
        labels=_labels(whole[0]) if whole else {},
    )


def _device_info(gpu: Gpu) -> DeviceInfo:
    resources = {
        well_known.RESOURCE_GPU_CORE: str(CORE_CAPACITY),
        well_known.RESOURCE_GPU_MEMORY_RATIO: _WHOLE_RATIO,
    }
    if gpu.memory:
        resources[well_known.RESOURCE_GPU_MEMORY] = format_quantity(gpu.memory)
    return DeviceInfo(
        type=DeviceType.GPU.value,
        id=gpu.uuid,
        minor=gpu.minor,
        health=not gpu.faults,
        conditions=(_healthy_condition(gpu),),
        resources=resources,
        topology=_topology(gpu),
    )


def _healthy_condition(gpu: Gpu) -> dict[str, str]:
    """Return the condition that says whether a GPU works, and why not, in the words of Koordinator's agent.

    The time of its last transition is missing: the report knows the present alone (`with_transition_times`).
    """
    if not gpu.faults:
        return {"type": _HEALTHY, "status": "True", "reason": "DeviceHealthy", "message": "device is healthy"}
    texts = (fault.message or " ".join(filter(None, (fault.reason, fault.value))) for fault in gpu.faults)
    return {
        "type": _HEALTHY,
        "status": "False",
        "reason": _REASONS.get(gpu.faults[0].reason, _camel_case(gpu.faults[0].reason)),
        "message": "; ".join(texts)[:_MESSAGE_MAX],
    }


def with_transition_times(report: DeviceReport, before: DeviceReport | None, *, now: str) -> DeviceReport:
    """Return a report whose conditions have the time of their last change of status: `now`, or that of `before`."""
    known = {
        (device.minor, device.id, condition["type"], condition["status"]): condition["lastTransitionTime"]
        for device in (before.devices if before is not None else ())
        for condition in device.conditions
    }
    return msgspec.structs.replace(
        report,
        devices=tuple(
            device.model_copy(
                update={
                    "conditions": tuple(
                        {
                            **condition,
                            "lastTransitionTime": known.get(
                                (device.minor, device.id, condition["type"], condition["status"]), now
                            ),
                        }
                        for condition in device.conditions
                    )
                }
            )
            for device in report.devices
        ),
    )


def _camel_case(words: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", words))


def _topology(gpu: Gpu) -> DeviceTopology | None:
    """Return the location of a GPU; None unless all of it is known, as Koordinator's agent reports it."""
    if gpu.numa_node is None or not gpu.pcie_root or not gpu.pci_bus_id:
        return None
    return DeviceTopology(
        socket_id=_UNKNOWN_SOCKET, node_id=gpu.numa_node, pcie_id=gpu.pcie_root, bus_id=gpu.pci_bus_id
    )


def _is_present(gpu: Gpu) -> bool:
    return all(fault.reason != GPU_LOST for fault in gpu.faults)


def _allocations(by_minor: Mapping[int, Gpu], prepared: Iterable[PreparedClaim]) -> tuple[DeviceAllocation, ...]:
    minors_by_name = {gpu.name: minor for minor, gpu in by_minor.items()}
    entries = []
    for preparation in sorted(prepared, key=lambda preparation: preparation.claim.key):
        names = {item.device for item in preparation.items if item.driver == DRIVER_NAME}
        # The minor of a GPU that is gone is the number in its name, unless another GPU has that minor now.
        gone = (_DEVICE_NAME.fullmatch(name) for name in names - minors_by_name.keys())
        former = {int(name.group(1)) for name in gone if name is not None} - by_minor.keys()
        minors = sorted(former | {minors_by_name[name] for name in names & minors_by_name.keys()})
        if minors:
            namespace, name = preparation.claim.key
            entries.append(
                DeviceAllocationItem(namespace=namespace, name=name, uuid=preparation.claim.uid, minors=tuple(minors))
            )
    return (DeviceAllocation(type=DeviceType.GPU.value, entries=tuple(entries)),) if entries else ()


def _labels(first: Gpu) -> Mapping[str, str]:
    """Return the labels of a Node whose first GPU is given, as Koordinator's agent chooses it."""
    labels = {
        well_known.LABEL_GPU_MODEL: _label_value(first.product),
        well_known.LABEL_GPU_DRIVER_VERSION: _label_value(first.driver_version),
        well_known.LABEL_GPU_VENDOR: _label_value(first.vendor),
    }
    return {key: value for key, value in labels.items() if value}


def _label_value(text: str) -> str:
    """Return a text as the value of a label: ``NVIDIA H100 80GB HBM3`` becomes ``NVIDIA-H100-80GB-HBM3``."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:_LABEL_VALUE_MAX].strip("-_.")
