"""The bound on the capacity that Reservations of a namespace hold: its ResourceQuotas.

The API server charges a placeholder, and the owner pods. In between nobody is charged: the placeholder is deleted once
its Reservation holds the node. Without a bound, a tenant could hold a whole cluster, one quota after the other. So what
Reservations hold and no owner pod uses counts as used when a further Reservation is placed, or grows.

The API server charges pods without knowing of Reservations, so pods and Reservations together may have twice the quota.
A quota with scopes counts the Reservations whose templates it would count as pods (`quota_scopes`).
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from dra.engine.reservations import quota_scopes
from dra.engine.reservations.placeholders import SYSTEM_CLASSES
from dra.engine.reservations.quota_scopes import PodTraits
from dra.model import quantities
from dra.model.quantities import Amounts
from dra.model.quotas import ResourceQuota

_PREFIX: Final = "requests."


class Charge(Enum):
    """The pods for which the quotas count the wanted amounts as used already."""

    NOBODY = auto()
    """No pod: a Reservation that grows."""
    PLACEHOLDER = auto()
    RUNNING_PODS = auto()
    """Pods that run, perhaps: a Reservation may be placed over them, and its placeholder requests nothing."""


def refusal(
    quotas: Iterable[ResourceQuota],
    *,
    held: Mapping[PodTraits, Amounts],
    wanted: Amounts,
    traits: PodTraits,
    charge: Charge,
) -> str:
    """Return which quota has no room for a Reservation, with the numbers; empty if all have.

    `held` is what Reservations of the namespace hold beside what their owner pods use, without those that a placeholder
    is charged for, by the traits of their pods; `traits` are those of the pods of the Reservation that wants more.
    """
    for quota in quotas:
        if quota_scopes.counts(quota, traits):
            of_quota = (amounts for of_pod, amounts in held.items() if quota_scopes.counts(quota, of_pod))
            charged = charge is not Charge.PLACEHOLDER or quota_scopes.counts(quota, _of_placeholder(traits))
            text = _refusal(
                quota, held=quantities.total(of_quota), wanted=wanted, charge=charge if charged else Charge.NOBODY
            )
            if text:
                return text
    return ""


def _of_placeholder(traits: PodTraits) -> PodTraits:
    """Return the traits of the placeholder for pods: it requests what is held, and has no deadline or system class."""
    name = "" if traits.priority_class in SYSTEM_CLASSES else traits.priority_class
    return msgspec.structs.replace(traits, priority_class=name, has_deadline=False, is_best_effort=False)


def _refusal(quota: ResourceQuota, *, held: Amounts, wanted: Amounts, charge: Charge) -> str:
    hard, used = (quantities.from_validated_list(amounts) for amounts in (quota.status.hard, quota.status.used))
    for name, limit in hard.items():
        resource = name.removeprefix(_PREFIX)
        more = wanted.get(resource, 0)
        if more <= 0 or (charge is Charge.PLACEHOLDER and not held.get(resource)):
            continue  # the API server has checked the placeholder itself
        taken = _taken(used.get(name, 0), more, charge)
        if taken + held.get(resource, 0) > limit:
            numbers = (quantities.format_quantity(amount) for amount in (held.get(resource, 0), taken, limit))
            return _text(quota.metadata.name, name, *numbers)
    return ""


def _taken(used: int, wanted: int, charge: Charge) -> int:
    match charge:
        case Charge.NOBODY:
            return used + wanted
        case Charge.PLACEHOLDER:
            return used
        case Charge.RUNNING_PODS:
            return max(used, wanted)


def _text(quota: str, name: str, held: str, taken: str, limit: str) -> str:
    return (
        f"exceeded quota {quota}: Reservations of the namespace hold {name} {held} for pods to come, beside {taken} "
        f"used, limited to {limit}"
    )
