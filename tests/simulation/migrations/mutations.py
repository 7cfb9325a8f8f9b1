"""Rules of migrations, broken one at a time: each must be found, or the simulation proves nothing."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from controller.migration.evictor import Evictor
from dra.engine.migration import arbitration, decide, evicting, reserving
from dra.engine.migration.conditions import is_true
from dra.engine.migration.plan import DeleteReservation
from dra.engine.migration.reasons import MigrationConditionType
from dra.engine.migration.reservation_manifest import is_created_by
from dra.model.meta import Uid

SetAttribute: TypeAlias = Callable[[Any, str, Any], None]
"""``setattr``, or a monkeypatch's that is undone after the test."""

Mutation: TypeAlias = Callable[[SetAttribute], None]


def evict_before_the_reservation_has_a_node(put: SetAttribute) -> None:
    """Take a Reservation that was created for one that is held."""
    put(reserving, "has_node", lambda view: is_true(view.job, MigrationConditionType.RESERVATION_CREATED))
    put(evicting, "_evict_present", _evict_whatever_the_reservation)
    put(Evictor, "_is_held", _held)


def skip_the_last_look(put: SetAttribute) -> None:
    """Evict on what the watches show, without reading the Reservation live."""
    put(Evictor, "_is_held", _held)


def evict_into_used_reservations(put: SetAttribute) -> None:
    """Take a Reservation that another pod uses for a free one."""
    put(evicting, "_evict_present", _evict_whatever_the_reservation)
    put(Evictor, "_is_held", _held)


def leave_the_reservations_of_failed_jobs(put: SetAttribute) -> None:
    """Keep the Reservation that a failed job created, as Koordinator does after all failures but timeouts."""
    put(decide, "_delete_unused_reservation", lambda _: None)


def delete_used_reservations(put: SetAttribute) -> None:
    """Delete the Reservation of a failed or deleted job under the pod that uses the Reservation."""

    def delete(view: Any) -> DeleteReservation | None:
        found = view.reservation
        if found is None or not is_created_by(view.job, found):
            return None
        meta = found.metadata
        return DeleteReservation(name=meta.name, uid=Uid(meta.uid), resource_version=meta.resource_version)

    put(decide, "_delete_unused_reservation", delete)


def hold_no_devices(put: SetAttribute) -> None:
    """Reserve amounts alone, although the pod has devices, and do not look for the claims before the eviction."""
    known = reserving.reservation_manifest

    def without_claims(*arguments: Any, **options: Any) -> Any:
        manifest = known(*arguments, **options)
        manifest["spec"]["template"]["spec"].pop("resourceClaims", None)
        return manifest

    put(reserving, "reservation_manifest", without_claims)
    put(Evictor, "_unheld_devices", _nothing_lacks)


def ignore_limits(put: SetAttribute) -> None:
    """Let all jobs pass arbitration at once."""
    known = arbitration.arbitrate

    def arbitrate(view: Any, *, args: Any, now: float) -> Any:
        unlimited = dict.fromkeys(
            ("max_migrating_globally", "max_migrating_per_namespace", "max_migrating_per_node"), None
        )
        return known(view, args=args.model_copy(update=unlimited), now=now)

    put(arbitration, "arbitrate", arbitrate)


def evict_again(put: SetAttribute) -> None:
    """Forget that a pod was evicted, and do not look whether the pod is terminating."""
    known = Evictor.evict

    async def evict(self: Any, action: Any, live: Any) -> Any:
        await self._request(action)
        return await known(self, action, live)

    put(Evictor, "evict", evict)


async def _nothing_lacks(*_: Any) -> str:
    return ""


async def _held(*_: Any) -> bool:
    return True


def _evict_whatever_the_reservation(view: Any, found: Any, *, args: Any, now: float) -> Any:
    return evicting._request_eviction(view, args=args, now=now, reservation=found.metadata.name)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    evict_before_the_reservation_has_a_node,
    skip_the_last_look,
    evict_into_used_reservations,
    leave_the_reservations_of_failed_jobs,
    delete_used_reservations,
    hold_no_devices,
    ignore_limits,
    evict_again,
)

BY_NAME: Final[Mapping[str, Mutation]] = MappingProxyType({mutation.__name__: mutation for mutation in MUTATIONS})
