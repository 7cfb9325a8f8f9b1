"""Resolves priorities as admission does: of the pod's class, or of the default class where a pod names none."""

from collections.abc import Iterable

import msgspec

from dra.model.preemption import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER, PriorityClass
from dra.model.scheduling import SchedulerPod


class UnknownPriorityClassError(ValueError):
    """A pod names a PriorityClass that does not exist."""


def with_priority(
    pod: SchedulerPod, name: str, classes: Iterable[PriorityClass], *, complete: bool = True
) -> SchedulerPod:
    """Return a pod with the priority of the named class; without a name, of the default class.

    `complete`: whether `classes` are all classes of the cluster. Raises UnknownPriorityClassError.
    """
    known = {each.metadata.name: each for each in classes}
    found = known.get(name)
    if not name:
        found = min((each for each in known.values() if each.global_default), key=_priority_value, default=None)
    elif found is None and complete:
        raise UnknownPriorityClassError(f"pod {'/'.join(pod.metadata.key)}: there is no priority class {name}")
    if found is None:
        return pod
    never = PREEMPT_NEVER in {found.preemption_policy, pod.spec.preemption_policy}
    spec = msgspec.structs.replace(
        pod.spec, priority=found.value, preemption_policy=PREEMPT_NEVER if never else PREEMPT_LOWER_PRIORITY
    )
    return msgspec.structs.replace(pod, spec=spec)


def _priority_value(found: PriorityClass) -> int:
    return found.value
