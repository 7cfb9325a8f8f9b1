"""The engine's translation of a pod beside that of the admission policies, in one form that can be compared."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dra.cli.translation_expressions import MAX_REFUSALS
from dra.engine.translation.translated_pods import translate, translated_pod
from dra.model.quantities import reserialize
from tests.scenarios.api import Api, ApiError, Json
from tests.scenarios.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

LABEL: Final = {"reserve.dra/koordinator": "enabled"}
"""Label of a namespace whose pods are translated."""

DENIED: Final = " denied request: "
SPEC: Final = "node.koordinator.sh/extended-resource-spec"


@dataclass(frozen=True)
class Outcome:
    """What becomes of a pod: refusals, or the fields that a translation changes."""

    refusals: str = ""
    invalid: str = ""
    """The words of the API server's own validation, which comes before the policies that refuse."""
    claims: Any = None
    resources: Any = None
    annotation: str = ""


def by_the_engine(pod: Json) -> Outcome:
    """Return what the engine makes of a pod."""
    found = translate(pod)
    if found.refusals:
        return Outcome(refusals="; ".join(map(str, found.refusals[:MAX_REFUSALS])))
    return _outcome(translated_pod(pod, found.entries))


async def by_the_policies(api: Api, pod: Json, *, namespace: str) -> Outcome:
    """Return what an API server makes of a pod that it does not keep."""
    try:
        made = await api.request("POST", PODS.path(namespace=namespace), sent(pod), query={"dryRun": "All"})
    except ApiError as error:
        _, denied, text = error.answer.get("message", "").partition(DENIED)
        return Outcome(refusals=text) if denied else Outcome(invalid=str(error))
    return _outcome(made)


def priority_class(value: int) -> Json:
    """Return the PriorityClass by which pods get a priority."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"translation-{value}"},
        "value": value,
    }


def priorities(pods: Iterable[Json]) -> set[int]:
    """Return the priorities of pods."""
    return {pod["spec"]["priority"] for pod in pods}


def sent(pod: Json) -> Json:
    """Return a pod as a person writes it: the API server takes a priority from a PriorityClass alone."""
    sent = deepcopy(pod) | {"apiVersion": "v1", "kind": "Pod"}
    sent["spec"]["priorityClassName"] = priority_class(sent["spec"].pop("priority"))["metadata"]["name"]
    for field in ("containers", "initContainers"):
        for container in sent["spec"].get(field, ()):
            container.setdefault("image", "registry.example/image")
    return sent


def _outcome(pod: Json) -> Outcome:
    spec = pod["spec"]
    return Outcome(
        claims=spec.get("resourceClaims", []),
        resources=[
            _resources(container.get("resources") or {})
            for field in ("containers", "initContainers")
            for container in spec.get(field, ())
        ],
        annotation=(pod["metadata"].get("annotations") or {}).get(SPEC, ""),
    )


def _resources(given: Json) -> Json:
    limits = {name: reserialize(text) for name, text in (given.get("limits") or {}).items()}
    requests = {name: reserialize(text) for name, text in (given.get("requests") or {}).items()}
    return {"limits": limits, "requests": limits | requests, "claims": given.get("claims", [])}
