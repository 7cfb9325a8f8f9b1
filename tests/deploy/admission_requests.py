"""The objects and requests that tests of admission policies judge: pods, placeholders, the accounts of dra-reserve."""

from __future__ import annotations

import copy
from typing import Any

from dra.api.reservations.model import Reservation
from dra.engine.reservations import placeholders
from tests.dra.api.reservations.manifests import manifest

Json = dict[str, Any]

CONTROLLER = "system:serviceaccount:dra-reserve:dra-reserve-controller"
EXTENDER = "system:serviceaccount:dra-reserve:dra-reserve-extender"
PLUGIN = "system:serviceaccount:dra-reserve-nodes:dra-reserve-kubelet-plugin"
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager"}


def pod(**spec: Any) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "ml", "labels": {"app": "a"}, "annotations": {"other": "x"}},
        "spec": {
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
            "schedulingGates": [{"name": "reserve.dra/claim"}, {"name": "example.com/gate"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
            **spec,
        },
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    }


def placeholder(*containers: Json, init: list[Json] | None = None) -> Json:
    made = manifest()
    if containers:
        made["spec"]["template"]["spec"] |= {"containers": [*containers], "initContainers": init or []}
    made["metadata"]["uid"] = "0c3f1e9a-5f6b-4f0e-9f3c-1d2a3b4c5d6e"
    return copy.deepcopy(placeholders.placeholder_manifest(Reservation.model_validate(made)))


def changed(obj: Json, **paths: Any) -> Json:
    """A copy with other values; paths with ``__`` for dots, a number for an index, and None for nothing there."""
    made = copy.deepcopy(obj)
    for path, value in paths.items():
        *parents, last = path.split("__")
        at: Any = made
        for each in parents:
            at = at[int(each)] if isinstance(at, list) else at.setdefault(each, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return made


def asked(operation: str, *, part: str = "", user: str = CONTROLLER, **more: Any) -> Json:
    found = {"operation": operation, "namespace": "ml", "name": "p", "userInfo": {"username": user}, **more}
    return {**found, "subResource": part} if part else found


def patched(patch: Json) -> Json:
    """The pod after a merge patch of ours."""
    made = pod()
    for section, fields in patch.items():
        for name, value in fields.items():
            if value is None:
                made[section].pop(name)
            elif isinstance(value, dict):
                made[section].setdefault(name, {}).update(value)
            else:
                made[section][name] = value
    return made


def annotated(**values: str) -> Json:
    return {**pod(), "metadata": {**pod()["metadata"], "annotations": {"other": "x", **values}}}
