"""The match of pods against the owners of a reservation; one matching owner is enough.

Within an owner, object, controller and label selector must all match; an absent part is not compared. An object is
compared by uid, name, namespace and apiVersion, a controller with each owner reference of the pod by controller flag,
uid, name, kind and apiVersion; empty fields are not compared, since the workload may not exist yet. Label selectors
match pods of all namespaces.

Labels, names and owner references of a pod are written by the user that creates the pod. So an owner without a
namespace matches pods of every namespace, as in Koordinator; `cross_namespace_owners` finds such owners, so that users
are warned.

An invalid selector makes the whole reservation unusable: the valid half of a selector may mean something else.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from dra.api.reservations.model import (
    LabelSelector,
    LabelSelectorRequirement,
    ObjectReference,
    ReservationControllerReference,
    ReservationOwner,
)
from dra.engine.reservations.pod_info import PodInfo
from dra.model.meta import OwnerReference

_POD_API_VERSION: Final = "v1"
"""apiVersion of pods."""


def matches_any_owner(owners: Iterable[ReservationOwner], pod: PodInfo) -> bool:
    """Return whether a pod matches an owner: an empty list matches no pod; an empty owner matches every pod."""
    return any(_matches_owner(owner, pod) for owner in owners)


def cross_namespace_owners(owners: Iterable[ReservationOwner]) -> list[str]:
    """Return the paths of owners that match pods of every namespace: those without a namespace or a pod's uid.

    The API server sets the uid of a pod. Owner references, uids included, are written by the user that creates the pod.
    """
    return [f"spec.owners[{index}]" for index, owner in enumerate(owners) if not _is_namespaced(owner)]


def _is_namespaced(owner: ReservationOwner) -> bool:
    named = owner.object is not None and (owner.object.namespace or owner.object.uid)
    return bool(named or (owner.controller is not None and owner.controller.namespace))


def matches_selector(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a selector; an empty selector matches all labels."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _matches_requirement(each, labels) for each in selector.match_expressions
    )


def _matches_owner(owner: ReservationOwner, pod: PodInfo) -> bool:
    return (
        (owner.object is None or _matches_object(owner.object, pod))
        and (owner.controller is None or _matches_controller(owner.controller, pod))
        and (owner.label_selector is None or matches_selector(owner.label_selector, pod.labels))
    )


def _matches_object(wanted: ObjectReference, pod: PodInfo) -> bool:
    namespace, name = pod.key
    return (
        wanted.uid in ("", pod.uid)
        and wanted.name in ("", name)
        and wanted.namespace in ("", namespace)
        and wanted.api_version in ("", _POD_API_VERSION)
    )


def _matches_controller(wanted: ReservationControllerReference, pod: PodInfo) -> bool:
    return wanted.namespace in ("", pod.key[0]) and any(
        _matches_owner_reference(reference, wanted) for reference in pod.owners
    )


def _matches_owner_reference(reference: OwnerReference, wanted: ReservationControllerReference) -> bool:
    return (
        wanted.controller in (None, reference.controller)
        and wanted.uid in ("", reference.uid)
        and wanted.name in ("", reference.name)
        and wanted.kind in ("", reference.kind)
        and wanted.api_version in ("", reference.api_version)
    )


def _matches_requirement(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
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
