"""The labels, annotations, resources and drivers that concern requests in Koordinator's form."""

from typing import Final

from dra.model.koordinator_classes import LABEL_PRIORITY_CLASS, LABEL_QOS_CLASS

__all__ = ["LABEL_PRIORITY_CLASS", "LABEL_QOS_CLASS"]

_GROUP: Final = "scheduling.koordinator.sh"

# On namespaces.
LABEL_ENABLED: Final = "reserve.dra/koordinator"
"""Label of dra-reserve: with the value `ENABLED`, requests of the namespace's pods are translated."""
ENABLED: Final = "enabled"

# On pods.
LABEL_PRIORITY: Final = "koordinator.sh/priority"
"""Label: the pod's priority within its priority class."""
ANNOTATION_RESOURCE_SPEC: Final = f"{_GROUP}/resource-spec"
"""Annotation: the policies for the choice of a pod's CPUs."""
ANNOTATION_NUMA_TOPOLOGY_SPEC: Final = f"{_GROUP}/numa-topology-spec"
"""Annotation: the alignment of a pod's devices to NUMA nodes."""
ANNOTATION_DEVICE_ALLOCATE_HINT: Final = f"{_GROUP}/device-allocate-hint"
"""Annotation: rules for the choice of a pod's devices."""
ANNOTATION_DEVICE_JOINT_ALLOCATE: Final = f"{_GROUP}/device-joint-allocate"
"""Annotation: the kinds of devices that are to be near each other."""
ANNOTATION_GPU_PARTITION_SPEC: Final = f"{_GROUP}/gpu-partition-spec"
"""Annotation: the partition of GPUs, by links between them, that a pod gets."""
LABEL_GPU_ISOLATION_PROVIDER: Final = "koordinator.sh/gpu-isolation-provider"
"""Label: the library that isolates the shares of GPUs."""
ANNOTATION_RESOURCE_STATUS: Final = f"{_GROUP}/resource-status"
"""Annotation, a report: the CPUs that a pod is bound to."""
ANNOTATION_DEVICE_ALLOCATED: Final = f"{_GROUP}/device-allocated"
"""Annotation, a report: the devices that a pod has."""
ANNOTATION_EXTENDED_RESOURCE_SPEC: Final = "node.koordinator.sh/extended-resource-spec"
"""Annotation: the requests and limits that the translation took off the containers."""
ANNOTATION_CPUS: Final = "reserve.dra/cpus"
"""Annotation of dra-reserve: with the value `OWN_CPUS`, a pod with QoS class LSE or LSR gets no claim for CPUs."""
OWN_CPUS: Final = "own"

# On ResourceClaimTemplates.
LABEL_MADE_FROM: Final = "reserve.dra/made-from"
"""Label of dra-reserve: the form of the requests that a template was made from."""
KOORDINATOR: Final = "koordinator"
ANNOTATION_UNUSED_SINCE: Final = "reserve.dra/unused-since"
"""Annotation of dra-reserve: the time since which no pod names a template."""
ANNOTATION_FORM: Final = "reserve.dra/form"
"""Annotation of dra-reserve: a digest of what a version of dra-reserve makes of the name of a template."""

CPU_DRIVER: Final = "cpu.reserve.dra"
CPUS_OF_NODE: Final = "cpus"
"""The device for all CPUs of a node."""
CPU_CAPACITY: Final = "dra.cpu/cpu"
NUMA_CPU_CAPACITY: Final = "numaCPUs"
"""Capacity of a NUMA node's device: its CPUs."""
NUMA_NODE_TAINT: Final = "cpu.reserve.dra/numa-node"
"""Taint of a NUMA node's device."""
WHOLE_CORE_CAPACITY: Final = "wholeCoreCPUs"
"""Capacity of a node's device: the CPUs of entirely free cores."""
DISTINCT_CORE_CAPACITY: Final = "distinctCoreCPUs"
"""Capacity of a node's device: the number of cores with a free CPU."""
GPU_DRIVER: Final = "gpu.reserve.dra"
GPU_MEMORY: Final = "memory"
GPU_CORE: Final = "core"

# Resources of Devices and of reports.
RESOURCE_GPU_CORE: Final = "koordinator.sh/gpu-core"
RESOURCE_GPU_MEMORY: Final = "koordinator.sh/gpu-memory"
RESOURCE_GPU_MEMORY_RATIO: Final = "koordinator.sh/gpu-memory-ratio"

# On Nodes and Devices.
LABEL_GPU_MODEL: Final = "node.koordinator.sh/gpu-model"
LABEL_GPU_DRIVER_VERSION: Final = "node.koordinator.sh/gpu-driver-version"
LABEL_GPU_VENDOR: Final = "node.koordinator.sh/gpu-vendor"
GPU_LABELS: Final = (LABEL_GPU_MODEL, LABEL_GPU_DRIVER_VERSION, LABEL_GPU_VENDOR)
