"""Reads the workloads that claims refer to: each kind is listed once, and its rules say which workloads have ended."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from dra.cel.object_rules import WorkloadLifecycle, WorkloadRules
from dra.cli.kubectl.snapshots.controller_reader import LifecycleCache, workload_rules
from dra.cli.kubectl.snapshots.object_lists import ObjectLists
from dra.engine.claims.view import ENTRY_API_GROUP, WorkloadPhase
from dra.engine.claims.workload_index import WorkloadKey
from dra.engine.claims.workload_kinds import WatchedKinds
from dra.engine.diagnosis.snapshot import ReferencedWorkload
from dra.kube.client import Selection
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, Forbidden
from dra.kube.object_sizes import LARGE_OBJECT_BYTES
from dra.kube.resources import Resource
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, RawObject
from dra.model.references import GroupResource, MalformedReferenceError
from dra.model.workload_reservations import workload_reservation

RULES_AT_ONCE: Final = 50
"""Number of workloads whose release rules are evaluated at a time: the web page serves its streams in between."""

UNLISTED_GROUPS_MAX: Final = 16
"""Maximum number of API groups that the server does not list and is asked for all the same, in one reading."""

CLAIMS_AT_ONCE: Final = 300
"""Number of claims whose references are read at a time."""


def referenced_workloads(claim: ResourceClaim) -> Iterable[WorkloadKey]:
    """Yield the workloads that a claim refers to, in its annotations and in its list."""
    namespace = claim.metadata.namespace
    with suppress(MalformedReferenceError):
        reservation = workload_reservation(claim)
        if reservation is not None:
            yield WorkloadKey.from_reference(reservation.reference, namespace)
    for entry in claim.entries:
        if not entry.is_pod and entry.api_group != ENTRY_API_GROUP:
            yield WorkloadKey.from_reference(entry, namespace)


class WorkloadReader:
    """Looks up the workloads of one snapshot."""

    def __init__(self, lists: ObjectLists, discovery: Discovery, lifecycles: LifecycleCache) -> None:
        """``lifecycles``: of workloads that an earlier reader has evaluated; gaps are recorded in ``lists``."""
        self._lists = lists
        self._discovery = discovery
        self._lifecycles = lifecycles
        self._unlisted_groups: set[str] = set()
        """Groups of workloads that the server does not list."""

    async def look_up(self, claims: Iterable[ResourceClaim]) -> list[ReferencedWorkload]:
        """Look up the workloads that claims refer to, one kind at a time.

        As the controller does, at most `workload_kinds.KINDS_PER_NAMESPACE` kinds for each namespace: any user who may
        create claims can name kinds that do not exist.
        """
        wanted: dict[GroupResource, set[WorkloadKey]] = {}
        within, rules = WatchedKinds(), workload_rules()
        within.exempt(frozenset(rules))
        for number, claim in enumerate(claims):
            if number % CLAIMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            for key in referenced_workloads(claim):
                wanted.setdefault(key.kind, set()).add(key)
                within.add(key.namespace, key.kind)
        workloads: list[ReferencedWorkload] = []
        for number, (kind, keys) in enumerate(sorted(wanted.items(), key=_kind_name)):
            if number % CLAIMS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if kind not in within:
                workloads += [_referenced_workload(key, WorkloadPhase.OVER_LIMIT) for key in keys]
            else:
                workloads += await self._look_up_kind(kind, keys, rules.get(kind))
        self._lifecycles.end_read()
        return workloads

    async def _look_up_kind(
        self, kind: GroupResource, keys: set[WorkloadKey], rules: WorkloadRules | None
    ) -> list[ReferencedWorkload]:
        found_workloads: dict[Key, ReferencedWorkload] = {}
        try:
            resource = await self._discovery.resolve(kind) if await self._may_be_served(kind.group) else None
            if resource is None or not resource.namespaced:
                suggestion = await self._suggest_kind(kind) if resource is None else ""
                return [_referenced_workload(key, WorkloadPhase.NO_KIND, meant=suggestion) for key in keys]
            model: Any = PartialObjectMetadata if rules is None else RawObject
            for namespace in self._namespaces(keys):
                selection, priority = Selection(namespace=namespace), self._discovery.priority
                async for page in self._lists.client.list_pages(
                    resource, model, selection=selection, priority=priority
                ):
                    for number, item in enumerate(page.items):
                        is_large = rules is not None and len(item.raw) > LARGE_OBJECT_BYTES
                        if number % RULES_AT_ONCE == 0 or is_large:
                            await asyncio.sleep(0)
                        key = WorkloadKey(kind, *item.metadata.key)
                        if key in keys:
                            lifecycle = self._lifecycle(rules, resource, item)
                            found_workloads[item.metadata.key] = _referenced_workload(
                                key,
                                WorkloadPhase.FINISHED if lifecycle.finished else WorkloadPhase.PRESENT,
                                uid=item.metadata.uid,
                                suspended=lifecycle.suspended,
                            )
        except Forbidden as error:
            self._lists.add_gap(str(kind), error)
            return [_referenced_workload(key, WorkloadPhase.FORBIDDEN) for key in keys]
        except ApiError as error:
            self._lists.add_gap(str(kind), error)
            return [_referenced_workload(key, WorkloadPhase.UNKNOWN) for key in keys]
        return [
            found_workloads.get((key.namespace, key.name)) or _referenced_workload(key, WorkloadPhase.ABSENT)
            for key in keys
        ]

    async def _may_be_served(self, group: str) -> bool:
        """Report whether a group is worth a request of its own: it is listed, or one of the first that are not.

        The list may lack the group of an aggregated API server that is down. Raises ApiError.
        """
        if group not in await self._discovery.served_groups():
            self._unlisted_groups.add(group)
        return group not in self._unlisted_groups or len(self._unlisted_groups) <= UNLISTED_GROUPS_MAX

    def _lifecycle(
        self, rules: WorkloadRules | None, resource: Resource, workload: PartialObjectMetadata | RawObject
    ) -> WorkloadLifecycle:
        if rules is None or not isinstance(workload, RawObject):
            return WorkloadLifecycle()
        return self._lifecycles.evaluate_raw(rules, resource, workload)

    async def _suggest_kind(self, kind: GroupResource) -> str:
        try:
            return str(await self._discovery.expand_shortcut(kind) or "")
        except ApiError:  # it would only be a hint
            return ""

    def _namespaces(self, keys: set[WorkloadKey]) -> list[str | None]:
        """Return the namespaces to list: None stands for all, unless one namespace suffices or access is restricted."""
        named = {key.namespace for key in keys}
        return [*named] if len(named) == 1 or self._lists.limited_to_namespace else [None]


def _referenced_workload(
    key: WorkloadKey,
    phase: WorkloadPhase,
    *,
    uid: Any = "",  # noqa: ANN401 - a Uid
    suspended: bool = False,
    meant: str = "",
) -> ReferencedWorkload:
    resource, group = key.kind.resource, key.kind.group
    return ReferencedWorkload(
        resource=resource,
        group=group,
        namespace=key.namespace,
        name=key.name,
        phase=phase,
        uid=uid,
        suspended=suspended,
        meant=meant,
    )


def _kind_name(pair: tuple[GroupResource, set[WorkloadKey]]) -> str:
    return str(pair[0])
