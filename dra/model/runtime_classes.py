"""RuntimeClasses (``node.k8s.io``), as far as admission changes a pod that names one."""

from dra.model.meta import ObjectMeta, Struct
from dra.model.scheduling import Toleration


class Overhead(Struct, frozen=True):
    """``overhead`` of a RuntimeClass."""

    pod_fixed: dict[str, str | int] | None = None


class RuntimeScheduling(Struct, frozen=True):
    """``scheduling`` of a RuntimeClass: the nodes that have the runtime."""

    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Struct, frozen=True):
    """A RuntimeClass, without its handler, which only kubelets read."""

    metadata: ObjectMeta
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None
