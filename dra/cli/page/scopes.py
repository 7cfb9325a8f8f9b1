"""The part of a cluster that a user may see: a scope, and the views and gaps that follow from it.

Devices and the map of nodes need every claim of the cluster: without it, a device that looks free may be held in
another namespace. So these views exist only for users who may list claims in all namespaces, and of the
ResourceSlices, others see nothing.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from dra.api.rbac import LEASE_NAME
from dra.cli.kubectl.snapshots.cluster_reader import COLOCATION_CONFIG, DEVICE_TAINT_RULES
from dra.cli.kubectl.snapshots.lease_reader import DESCHEDULER_LEASE_NAME
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis.snapshot import ControllerLease, ReferencedWorkload, Snapshot, UnreadResource
from dra.kube.resources import (
    CLAIMS,
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    SLICES,
    TEMPLATES,
    Resource,
)
from dra.model.references import GroupResource
from dra.model.workload_types import WORKLOAD_TYPES

FOLLOWED: Final = (PODS, NODES, SLICES, RESERVATIONS, POD_MIGRATION_JOBS, NODE_METRICS)
"""Kinds besides claims that the page lists and watches."""

LISTED: Final = (DEVICE_CLASSES, TEMPLATES, POD_DISRUPTION_BUDGETS, NAMESPACES, EVENTS)
"""Kinds that the page only lists, every few seconds; DeviceTaintRules and workloads besides."""

WORKLOAD_KINDS: Final = tuple(workload_type.resource for workload_type in WORKLOAD_TYPES if workload_type.readable)
"""Kinds of workloads whose objects the page lists."""

KINDS: Final = frozenset(
    {*(resource.label for resource in (CLAIMS, *FOLLOWED, *LISTED)), str(DEVICE_TAINT_RULES), COLOCATION_CONFIG}
)
"""Labels of the kinds that the page reads whatever the cluster contains."""

NO_PERMISSION: Final = "no permission to list them"

NOT_READ: Final = frozenset({WorkloadPhase.NO_KIND, WorkloadPhase.OVER_LIMIT})
"""Phases of workloads whose kind the page does not try to list, so that no permission is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The kinds and namespaces that a user may list and watch; claims are always among these kinds."""

    namespace: str | None
    """Namespace to which claims, pods and other namespaced kinds are limited; None: all namespaces."""

    granted: frozenset[str]
    """Labels of the kinds besides claims, such as ``pods``, that the user may read there."""

    def covers(self, resource: Resource, namespace: str) -> bool:
        """Report whether the user may see an object of a kind in a namespace ("": the kind has none)."""
        if resource.namespaced and self.namespace not in {None, namespace}:
            return False
        if resource == SLICES and self.namespace is not None:
            return False
        return resource == CLAIMS or resource.label in self.granted

    def hidden(self, absent: Collection[Resource] = ()) -> dict[str, str]:
        """Return the views that the user does not see, and ``pods`` if there are none, with the missing permissions.

        ``absent``: kinds that the API server does not serve, so that no permission is missing.
        """
        device_kinds = [
            *([f"{CLAIMS.label} in all namespaces"] if self.namespace is not None else []),
            *self._lacked(SLICES),
        ]
        needed = {
            "devices": device_kinds,
            "nodes": [*device_kinds, *self._lacked(NODES)],
            "pods": self._lacked(PODS),
            "reservations": self._lacked(RESERVATIONS) if RESERVATIONS not in absent else [],
            "migrations": self._lacked(POD_MIGRATION_JOBS) if POD_MIGRATION_JOBS not in absent else [],
            "rounds": self._lacked(POD_MIGRATION_JOBS) if POD_MIGRATION_JOBS not in absent else [],
        }
        return {
            view: f"no permission to list and watch {' and '.join(kinds)}" for view, kinds in needed.items() if kinds
        }

    def _lacked(self, resource: Resource) -> list[str]:
        return [] if resource.label in self.granted else [resource.label]

    def gaps(self, absent: Collection[Resource] = ()) -> Iterator[UnreadResource]:
        """Yield the kinds whose objects, or some of them, the user does not see; ``absent`` as in `hidden`."""
        for resource in (CLAIMS, PODS):
            if self.namespace is not None and self.covers(resource, self.namespace):
                yield UnreadResource(resource=f"{resource.label} of other namespaces", why=NO_PERMISSION)
        for resource in (*FOLLOWED, *LISTED):
            if resource not in absent and not self.covers(resource, self.namespace or ""):
                yield UnreadResource(resource=resource.label, why=NO_PERMISSION)
        if not self.may_list(DEVICE_TAINT_RULES):
            yield UnreadResource(resource=str(DEVICE_TAINT_RULES), why=NO_PERMISSION)
        if NODE_METRICS not in absent and COLOCATION_CONFIG not in self.granted:
            yield UnreadResource(resource=COLOCATION_CONFIG, why="no permission to get it")

    def may_list(self, kind: GroupResource) -> bool:
        """Report whether the user may list a kind."""
        return str(kind) in self.granted

    def cut(
        self, snapshot: Snapshot, own_gaps: Iterable[UnreadResource], *, absent: Collection[Resource] = ()
    ) -> Snapshot:
        """Return the surroundings of a snapshot without everything that the user may not see.

        ``own_gaps``: the kinds that the page itself cannot read; ``absent`` as in `hidden`. A kind of workload is left
        out unless a claim of the user names it: its name would tell what another namespace uses.
        """
        inside = [workload for workload in snapshot.workloads if self._is_inside(workload.namespace)]
        pairs = {_kind(workload) for workload in inside}  # few, of thousands of workloads
        kinds = {pair: GroupResource(resource=pair[0], group=pair[1]) for pair in pairs}
        allowed = {pair for pair, kind in kinds.items() if self.may_list(kind)}
        served = {_kind(workload) for workload in inside if workload.phase not in NOT_READ}
        workloads = tuple(workload if _kind(workload) in allowed else _without_state(workload) for workload in inside)
        named = KINDS | {str(kind) for kind in kinds.values()}
        unread = {str(kinds[pair]) for pair in served - allowed}
        forbidden = [UnreadResource(resource=resource, why=NO_PERMISSION) for resource in sorted(unread)]
        own = (gap for gap in own_gaps if gap.resource in named)
        gaps = {gap.resource: gap for gap in (*own, *forbidden, *self.gaps(absent))}
        return msgspec.structs.replace(
            snapshot,
            namespace=self.namespace,
            leader=_without_holder(snapshot.leader, LEASE_NAME, "the controller"),
            descheduler=_without_holder(snapshot.descheduler, DESCHEDULER_LEASE_NAME, "the descheduler"),
            classes=snapshot.classes if DEVICE_CLASSES.label in self.granted else (),
            rules=snapshot.rules if self.may_list(DEVICE_TAINT_RULES) else (),
            templates=tuple(
                template for template in snapshot.templates if self.covers(TEMPLATES, template.metadata.namespace)
            ),
            budgets=tuple(
                budget for budget in snapshot.budgets if self.covers(POD_DISRUPTION_BUDGETS, budget.metadata.namespace)
            ),
            enabled_namespaces={
                name: enabled
                for name, enabled in snapshot.enabled_namespaces.items()
                if NAMESPACES.label in self.granted and self._is_inside(name)
            },
            colocation_config=snapshot.colocation_config if COLOCATION_CONFIG in self.granted else None,
            start_failures=tuple(
                event for event in snapshot.start_failures if self.covers(EVENTS, event.metadata.namespace)
            ),
            workloads=workloads,
            gaps=tuple(gaps.values()),
        )

    def _is_inside(self, namespace: str) -> bool:
        return self.namespace in {None, namespace}


EVERYTHING: Final = Scope(
    namespace=None,
    granted=frozenset(
        {
            *(resource.label for resource in (*FOLLOWED, *LISTED)),
            str(DEVICE_TAINT_RULES),
            COLOCATION_CONFIG,
            *(str(kind) for kind in WORKLOAD_KINDS),
        }
    ),
)
"""The scope of cluster administrators, and of users with the role ``dra-reserve-page-viewer`` in all namespaces."""


def _without_holder(lease: ControllerLease, name: str, holder: str) -> ControllerLease:
    """Return the state of a process without the names of its pod and namespace, which the user may not know."""
    return msgspec.structs.replace(lease, name=name, holder=holder if lease.holder else "")


def _kind(workload: ReferencedWorkload) -> tuple[str, str]:
    """Return resource and group of a workload."""
    return (workload.resource, workload.group)


def _without_state(workload: ReferencedWorkload) -> ReferencedWorkload:
    """Return a workload of a kind that the user may not list, as far as the claim that names the workload shows it."""
    if workload.phase in NOT_READ:
        return workload
    return ReferencedWorkload(
        resource=workload.resource,
        group=workload.group,
        namespace=workload.namespace,
        name=workload.name,
        phase=WorkloadPhase.FORBIDDEN,
    )
