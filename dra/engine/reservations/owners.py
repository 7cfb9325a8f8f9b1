"""Whose a reservation is: its owners describe pods, one description that matches is enough.

Within a description object, controller and label selector must all match; what is not said is not compared. An object
is compared by uid, name, namespace and apiVersion, a controller with each owner reference of the pod by controller
flag, uid, name, kind and apiVersion; both only where they are not empty, since the workload may not exist yet. Label
selectors look at pods of all namespaces.

Labels, names and owner references of a pod are written by whoever creates the pod. So an owner that names no namespace
lets pods of every namespace in, as in Koordinator; `open_to_all` finds such owners, so that people are told.

A selector that cannot be read makes the whole reservation nobody's: half of what somebody meant may be another meaning.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.reservations.model import (
    ControllerReference,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectReference,
    Owner,
)
from dra.engine.reservations.claimants import Claimant
from dra.model.meta import OwnerReference

_API_VERSION: Final = "v1"
"""Of pods."""

_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def matches(owners: Iterable[Owner], pod: Claimant) -> bool:
    """Whether a pod is one of the owners; of none nobody is, and everybody is an owner of whom nothing is said."""
    return any(_one(owner, pod) for owner in owners)


def open_to_all(owners: Iterable[Owner]) -> list[str]:
    """Return the paths of the owners that pods of every namespace can match: those without a namespace or a pod's uid.

    The API server sets the uid of a pod. Its owner references, uids included, are written by whoever creates the pod.
    """
    return [f"spec.owners[{index}]" for index, owner in enumerate(owners) if not _bound(owner)]


def _bound(owner: Owner) -> bool:
    named = owner.object is not None and (owner.object.namespace or owner.object.uid)
    return bool(named or (owner.controller is not None and owner.controller.namespace))


def faults(owners: Iterable[Owner]) -> list[str]:
    """Return what cannot be read in label selectors, each after the path of its field."""
    return [
        f"spec.owners[{index}].labelSelector.{fault}"
        for index, owner in enumerate(owners)
        if owner.label_selector is not None
        for fault in _selector_faults(owner.label_selector)
    ]


def selected(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether labels are as a selector wants them; an empty one wants nothing."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _required(each, labels) for each in selector.match_expressions
    )


def _one(owner: Owner, pod: Claimant) -> bool:
    return (
        (owner.object is None or _is(owner.object, pod))
        and (owner.controller is None or _controls(owner.controller, pod))
        and (owner.label_selector is None or selected(owner.label_selector, pod.labels))
    )


def _is(wanted: ObjectReference, pod: Claimant) -> bool:
    namespace, name = pod.key
    return (
        wanted.uid in ("", pod.uid)
        and wanted.name in ("", name)
        and wanted.namespace in ("", namespace)
        and wanted.api_version in ("", _API_VERSION)
    )


def _controls(wanted: ControllerReference, pod: Claimant) -> bool:
    return wanted.namespace in ("", pod.key[0]) and any(_refers(reference, wanted) for reference in pod.owners)


def _refers(reference: OwnerReference, wanted: ControllerReference) -> bool:
    return (
        wanted.controller in (None, reference.controller)
        and wanted.uid in ("", reference.uid)
        and wanted.name in ("", reference.name)
        and wanted.kind in ("", reference.kind)
        and wanted.api_version in ("", reference.api_version)
    )


def _required(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def _selector_faults(selector: LabelSelector) -> Iterable[str]:
    for key, value in selector.match_labels.items():
        if not _is_key(key):
            yield f"matchLabels: {key!r} is no label"
        if not _VALUE.fullmatch(value):
            yield f"matchLabels[{key}]: {value!r} is no value of a label"
    for index, each in enumerate(selector.match_expressions):
        where = f"matchExpressions[{index}]"
        if not _is_key(each.key):
            yield f"{where}.key: {each.key!r} is no label"
        match each.operator:
            case "In" | "NotIn":
                if not each.values:
                    yield f"{where}.values: In and NotIn need values"
                yield from (
                    f"{where}.values: {value!r} is no value of a label"
                    for value in each.values
                    if not _VALUE.fullmatch(value)
                )
            case "Exists" | "DoesNotExist":
                if each.values:
                    yield f"{where}.values: Exists and DoesNotExist take no values"
            case _:
                yield f"{where}.operator: {each.operator!r} is none of In, NotIn, Exists, DoesNotExist"


def _is_key(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return _KEY.fullmatch(key) is not None and (not slash or len(prefix) <= 253)  # noqa: PLR2004 - a DNS name
