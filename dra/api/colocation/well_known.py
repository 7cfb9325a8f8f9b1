"""The resources, the ConfigMap, labels and annotations of colocation; all are Koordinator's."""

from typing import Final

from dra.model.meta import Key

BATCH_CPU: Final = "kubernetes.io/batch-cpu"
"""Resource: CPUs for batch pods, counted in milli-CPUs: ``500`` is half a CPU."""
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
"""Resource: memory for batch pods, in bytes."""

CONFIG_MAP_NAMESPACE: Final = "koordinator-system"
CONFIG_MAP_NAME: Final = "slo-controller-config"
CONFIG_MAP: Final[Key] = (CONFIG_MAP_NAMESPACE, CONFIG_MAP_NAME)
"""The ConfigMap with the strategies of all nodes."""

KEY_COLOCATION: Final = "colocation-config"
"""Key of the ConfigMap: how batch resources are computed, and how nodes report."""
KEY_THRESHOLD: Final = "resource-threshold-config"
"""Key of the ConfigMap: how nodes hold batch pods back."""
KEY_QOS: Final = "resource-qos-config"
"""Key of the ConfigMap: how nodes divide their caches and memory bandwidth."""

# On Nodes.
ANNOTATION_COLOCATION_STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
"""Annotation: fields of ``colocation-config`` for this node, in JSON."""
LABEL_CPU_RECLAIM_RATIO: Final = "node.koordinator.sh/cpu-reclaim-ratio"
"""Label: ``cpuReclaimThresholdPercent`` of this node as a ratio, for example 0.8."""
LABEL_MEMORY_RECLAIM_RATIO: Final = "node.koordinator.sh/memory-reclaim-ratio"
"""Label: ``memoryReclaimThresholdPercent`` of this node as a ratio, for example 0.8."""
