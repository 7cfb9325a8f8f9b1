"""Add the overhead, node selector and tolerations of its RuntimeClass to a new pod, as admission does.

The rules of upstream's admission plugin RuntimeClass. A class of which nothing is known leaves the pod as it is.
"""

from collections.abc import Mapping

import msgspec

from dra.model import quantities
from dra.model.runtime_classes import RuntimeClass
from dra.model.scheduling import SchedulerPod


class RefusedRuntimeClassError(ValueError):
    """Admission would refuse a pod because of its RuntimeClass; the text says why."""


def admitted(pod: SchedulerPod, name: str, classes: Mapping[str, RuntimeClass]) -> SchedulerPod:
    """Return a pod as admission changes it for a named RuntimeClass; raise RefusedRuntimeClassError."""
    runtime_class = classes.get(name)
    if runtime_class is None:
        raise RefusedRuntimeClassError(f"RuntimeClass {name} does not exist")
    fixed = runtime_class.overhead.pod_fixed if runtime_class.overhead is not None else None
    spec = pod.spec
    if spec.overhead and quantities.from_validated_list(spec.overhead) != quantities.from_validated_list(fixed):
        raise RefusedRuntimeClassError(f"spec.overhead is not that of RuntimeClass {name}")
    scheduling = runtime_class.scheduling
    selector = dict(spec.node_selector or {})
    for key, value in ((scheduling.node_selector or {}) if scheduling is not None else {}).items():
        if selector.setdefault(key, value) != value:
            raise RefusedRuntimeClassError(
                f"spec.nodeSelector[{key}] is {selector[key]}, and {value} in RuntimeClass {name}"
            )
    more = (scheduling.tolerations or []) if scheduling is not None else []
    tolerations = [*(spec.tolerations or ()), *(item for item in more if item not in (spec.tolerations or ()))]
    return msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(
            spec, overhead=fixed, node_selector=selector or None, tolerations=tolerations or None
        ),
    )
