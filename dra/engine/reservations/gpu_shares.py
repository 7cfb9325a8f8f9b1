"""Shares of GPUs in the status of a reservation, under Koordinator's names.

Claims hold shares, and no node counts them as amounts: the status shows them to users and tools alone. A claim goes to
an owner pod whose entry has the name and the template of the reservation's
(`dra.engine.claims.generation.held_claims`), so each entry is taken as a whole, by one owner pod at a time.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from dra.api.reservations.model import Reservation
from dra.engine.reservations import translated_templates
from dra.engine.translation import gpu_requests, template_names
from dra.engine.translation.device_requests import MEBI
from dra.engine.translation.requests import GpuShare, gpu_shares
from dra.model import quantities
from dra.model.quantities import NANOS_PER_UNIT, Amounts
from dra.model.scheduling import SchedulerPod

GpuEntry: TypeAlias = tuple[str, str]
"""An entry of ``resourceClaims`` for a share: its name, and the name of the template."""

NO_ENTRIES: Final[frozenset[GpuEntry]] = frozenset()

_CORE, _MEMORY, _RATIO = (
    gpu_requests.PREFIX + suffix for suffix in (gpu_requests.CORE, gpu_requests.MEMORY, gpu_requests.RATIO)
)
UNITS: Final[Mapping[str, str]] = {_MEMORY: "1Mi"}


def pod_entries(pod: SchedulerPod) -> frozenset[GpuEntry]:
    """Return the entries of a translated pod for shares of GPUs."""
    entries = pod.spec.resource_claims
    if not entries:
        return NO_ENTRIES
    named = ((entry.name, entry.resource_claim_template_name or "") for entry in entries)
    return frozenset(entry for entry in named if (of := template_names.parse(entry[1])) is not None and gpu_shares(of))


def held_entries(reservation: Reservation) -> dict[GpuEntry, Amounts]:
    """Return the entries for shares that pods of a reservation's template get, each with its amounts."""
    template, meta = reservation.spec.template, reservation.metadata
    if not translated_templates.asks_for_gpus(template):
        return {}
    entries = translated_templates.entries(template, meta.labels, meta.annotations)
    return {
        (entry.name, template_names.name_of(entry.request)): quantities.total(map(share_amounts, shares))
        for entry in entries
        if (shares := gpu_shares(entry.request))
    }


def share_amounts(share: GpuShare) -> Amounts:
    """Return a share as amounts: totals over all cards, as requested."""
    mebibytes = share.memory_mebibytes
    amounts = {_CORE: share.core, _MEMORY: None if mebibytes is None else mebibytes * MEBI, _RATIO: share.ratio}
    return {name: amount * NANOS_PER_UNIT for name, amount in amounts.items() if amount is not None}


def held_shares(reservation: Reservation) -> Amounts:
    """Return the shares that a reservation holds."""
    return quantities.total(held_entries(reservation).values())


def taken_shares(reservation: Reservation, owners: Iterable[frozenset[GpuEntry]]) -> Amounts:
    """Return the shares of a reservation that owner pods with the given entries take."""
    taken: frozenset[GpuEntry] = frozenset().union(*owners)
    return quantities.total(amounts for entry, amounts in held_entries(reservation).items() if entry in taken)
