"""Requests of batch pods: CPU and memory of a container become ``batch-cpu`` and ``batch-memory``.

Requests and limits are translated alike, for init containers, too. An amount in the batch resource that is there
already stays, and only the plain one is taken off: a LimitRange fills in its defaults a second time after the first
translation. Requests of the whole pod (``spec.resources``) and the overhead of a RuntimeClass have no translation.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from math import ceil
from typing import Any, Final

from dra.api.profiles.well_known import ANNOTATION_SKIP_RESOURCES, TRANSLATED_RESOURCES
from dra.engine.translation import classes, pod_fields
from dra.model.koordinator_classes import (
    LABEL_PRIORITY_CLASS,
    LABEL_QOS_CLASS,
    PRIORITY_CLASS_NAMES,
    PRIORITY_RANGES,
    PriorityClass,
)

KINDS: Final = ("requests", "limits")
BATCH_CLASS: Final = "koord-batch"
BATCH_PRIORITIES: Final = next((low, high) for low, high, name in PRIORITY_RANGES if name is PriorityClass.BATCH)


def is_batch(*, labels: Mapping[str, str], annotations: Mapping[str, str], priority: int) -> bool:
    """Report whether the requests of a pod are translated: it has priority class koord-batch, or none and QoS class BE.

    `ANNOTATION_SKIP_RESOURCES` exempts a pod.
    """
    if ANNOTATION_SKIP_RESOURCES in annotations:
        return False
    if (named := labels.get(LABEL_PRIORITY_CLASS)) in PRIORITY_CLASS_NAMES:
        return named == BATCH_CLASS
    if any(low <= priority <= high for low, high, _ in PRIORITY_RANGES):
        return BATCH_PRIORITIES[0] <= priority <= BATCH_PRIORITIES[1]
    return labels.get(LABEL_QOS_CLASS) == classes.BEST_EFFORT


def translate_resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of a container with batch resources in place of CPU and memory."""
    made = {**resources}
    for kind in KINDS:
        amounts = dict(pod_fields.mapping(made.get(kind)))
        for plain, batch in TRANSLATED_RESOURCES:
            if plain in amounts:
                amounts.setdefault(batch, _translated(plain, amounts.pop(plain)))
        if amounts or kind in made:
            made[kind] = amounts
    return {name: value for name, value in made.items() if value or name not in KINDS}


def translate_containers(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod whose containers request batch resources."""
    made = deepcopy(dict(spec))
    for container in _containers(made):
        if resources := pod_fields.mapping(container.get("resources")):
            container["resources"] = translate_resources(_with_requests(resources))
    return made


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for field in pod_fields.CONTAINER_FIELDS:
        yield from (container for container in pod_fields.items(spec.get(field)) if isinstance(container, dict))


def _with_requests(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources with a request for each limit, as the API server's defaults have it."""
    limits, requests = (pod_fields.mapping(resources.get(kind)) for kind in ("limits", "requests"))
    filled = {**limits, **requests}
    return {**resources, **({"requests": filled} if filled else {})}


def _translated(plain: str, quantity: object) -> str:
    """Return an amount of CPU in milli-CPUs, rounded up, and an amount of memory as it is."""
    amount = pod_fields.amount(quantity)
    if plain != "cpu" or amount is None:
        return str(quantity)
    return str(ceil(amount * 1000))
