"""The match of pods against the owners of a reservation; one matching owner is enough.

Within an owner, object, controller and label selector must all match; an absent part is not compared. An object is
compared by uid, name, namespace and apiVersion, a controller with each owner reference of the pod by controller flag,
uid, name, kind and apiVersion; empty fields are not compared, since the workload may not exist yet. Label selectors
match pods of all namespaces.

Labels, names and owner references of a pod are written by the user that creates the pod. So an owner without a
namespace matches pods of every namespace, as in Koordinator; `cross_namespace_owners` finds such owners, so that users
are warned.

An invalid selector makes the whole reservation unusable: the valid half of a selector may mean something else.

`OwnerIndex` finds the reservations whose owners may match a pod. Each owner is filed under one property that a matching
pod must have: a uid, a name, a label. A pod is looked up under all of its properties. A reservation that is found may
match and must still be checked; a reservation that is not found cannot match.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from dra.api.object_fields import ObjectReference
from dra.api.reservations.model import (
    LabelSelector,
    LabelSelectorRequirement,
    ReservationControllerReference,
    ReservationOwner,
)
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.reservation_info import ReservationInfo
from dra.model.meta import OwnerReference, Uid

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
        _matches_requirement(requirement, labels) for requirement in selector.match_expressions
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
        _matches_owner_reference(reference, wanted) for reference in pod.owner_references
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


IndexKey: TypeAlias = tuple[str, ...]

_ANY_POD: IndexKey = ("any",)


class OwnerIndex:
    """The index of reservations by the properties that their owners require of pods."""

    __slots__ = ("_keys", "_reservations")

    def __init__(self) -> None:
        self._reservations: dict[IndexKey, dict[Uid, None]] = {}
        self._keys: dict[Uid, tuple[IndexKey, ...]] = {}

    def update(self, info: ReservationInfo) -> None:
        """Add a reservation, or replace its entry."""
        keys = tuple(key for owner in info.owners for key in _owner_keys(owner))
        if self._keys.get(info.uid) == keys:
            return
        self.remove(info.uid)
        self._keys[info.uid] = keys
        for key in keys:
            self._reservations.setdefault(key, {})[info.uid] = None

    def remove(self, uid: Uid) -> None:
        """Remove a reservation from the index."""
        for key in self._keys.pop(uid, ()):
            reservations = self._reservations.get(key)
            if reservations is not None:
                reservations.pop(uid, None)
                if not reservations:
                    del self._reservations[key]

    def candidates(self, pod: PodInfo) -> dict[Uid, None]:
        """Return the reservations whose owners may match a pod, in a fixed order."""
        candidates: dict[Uid, None] = {}
        for key in _pod_keys(pod):
            if (reservations := self._reservations.get(key)) is not None:
                candidates.update(reservations)
        return candidates


def _owner_keys(owner: ReservationOwner) -> Iterator[IndexKey]:
    """Yield keys such that each matching pod has at least one of them."""
    if (wanted := owner.object) is not None and (wanted.uid or wanted.name):
        yield ("uid", wanted.uid) if wanted.uid else ("name", wanted.name)
    elif (controller := owner.controller) is not None and (controller.uid or controller.name):
        yield ("owner uid", controller.uid) if controller.uid else ("owner", controller.name)
    elif owner.label_selector is not None and owner.label_selector.match_labels:
        # The last by name: labels that distinguish workloads ("job-name") sort behind labels that workloads share
        # ("app").
        yield ("label", *max(owner.label_selector.match_labels.items()))
    elif owner.label_selector is not None:
        for requirement in owner.label_selector.match_expressions:
            if requirement.operator == "In":
                yield from (("label", requirement.key, value) for value in dict.fromkeys(requirement.values))
                return
        yield _ANY_POD
    else:
        yield _ANY_POD


def _pod_keys(pod: PodInfo) -> Iterator[IndexKey]:
    yield ("uid", pod.uid)
    yield ("name", pod.key[1])
    for reference in pod.owner_references:
        yield ("owner uid", reference.uid)
        yield ("owner", reference.name)
    for name, value in pod.labels.items():
        yield ("label", name, value)
    yield _ANY_POD
