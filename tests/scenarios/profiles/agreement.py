"""What the engine makes of a pod beside what the admission policies make of it, in one form that can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from dra.api.profiles.parameters import ResolvedProfile
from dra.engine.profiles.guard import MAX_REFUSALS, batch_refusals
from dra.engine.profiles.profiled_pods import profiled_pod
from dra.model.quantities import parse, reserialize
from tests.dra.engine.profiles.examples import PRIORITIES
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.resources import PODS

DENIED: Final = " denied request: "
CLASSES: Final = {value: name for name, value in PRIORITIES.items()}


@dataclass(frozen=True)
class Outcome:
    """What becomes of a pod: refusals, or the fields that profiles set."""

    refusals: str = ""
    invalid: str = ""
    """The words of the API server's own validation."""
    labels: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    scheduler: str = ""
    priority: int = 0
    grace_seconds: int = 30
    resources: Any = None


def by_the_engine(pod: Json, profiles: Sequence[ResolvedProfile], *, namespace_labels: Mapping[str, str]) -> Outcome:
    """Return what the engine makes of a pod."""
    made = profiled_pod(pod, profiles, namespace_labels=namespace_labels)
    if refusals := batch_refusals(made):
        return Outcome(refusals="; ".join(map(str, refusals[:MAX_REFUSALS])))
    return _outcome(made)


async def by_the_policies(api: Api, pod: Json, *, namespace: str) -> Outcome:
    """Return what an API server makes of a pod that it does not keep."""
    try:
        made = await send(api, pod, namespace=namespace)
    except ApiError as error:
        _, denied, text = error.answer.get("message", "").partition(DENIED)
        return Outcome(refusals=text) if denied else Outcome(invalid=str(error))
    return _outcome(made)


async def send(api: Api, pod: Json, *, namespace: str) -> Json:
    """Return what an API server makes of a pod that it does not keep; raise ApiError."""
    return await api.request("POST", PODS.path(namespace=namespace), sent(pod), query={"dryRun": "All"})


def sent(pod: Json) -> Json:
    """Return a pod as a person writes it: the API server takes a priority from a PriorityClass alone."""
    made = deepcopy(pod) | {"apiVersion": "v1", "kind": "Pod"}
    priority = made["spec"].pop("priority", 0)
    if priority:
        made["spec"]["priorityClassName"] = CLASSES[priority]
    for kind in ("containers", "initContainers"):
        for container in made["spec"].get(kind, ()):
            container.setdefault("image", "registry.example/image")
    return made


def _outcome(pod: Json) -> Outcome:
    spec, metadata = pod["spec"], pod["metadata"]
    priority = spec["priority"] if "priority" in spec else PRIORITIES[spec["priorityClassName"]]
    return Outcome(
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        scheduler=spec.get("schedulerName", "default-scheduler"),
        priority=priority,
        grace_seconds=spec.get("terminationGracePeriodSeconds", 30),
        resources=[
            _resources(container.get("resources") or {})
            for kind in ("containers", "initContainers")
            for container in spec.get(kind, ())
        ],
    )


def _resources(given: Json) -> Json:
    limits, requests = (_amounts(given.get(kind) or {}) for kind in ("limits", "requests"))
    return {"limits": limits, "requests": limits | requests}


def _amounts(given: Json) -> Json:
    """Return amounts in one form; the API server rounds CPUs up to milli-CPUs."""
    amounts = {name: ceil(parse(str(text)) * 1000) for name, text in given.items() if name == "cpu"}
    return {name: f"{amounts[name]}m" if name in amounts else reserialize(str(text)) for name, text in given.items()}
