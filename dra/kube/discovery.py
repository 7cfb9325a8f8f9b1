"""Resolution of a group-resource such as ``jobs.batch`` to its version and kind.

Asks for one API group at a time: the aggregated document of a cluster with many CRDs has megabytes, and a claim names
one kind. An unknown kind yields None and no error: its CRD may be installed later, so that answer is cached only
shortly.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.errors import NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import InvalidNameError, Resource, group_path
from dra.model.meta import Struct
from dra.model.references import GroupResource

CACHE_SECONDS: Final = 600.0
NEGATIVE_CACHE_SECONDS: Final = 10.0
"""Seconds for which an answer is cached: found, and not found."""

GROUPS_MAX: Final = 512
"""Maximum number of API groups in the discovery cache. Any user who may create a claim may name a group."""


class _GroupVersion(Struct, frozen=True):
    version: str


class _Group(Struct, frozen=True):
    """The response of ``/apis/GROUP``."""

    versions: list[_GroupVersion]
    preferred_version: _GroupVersion | None = None


class _ServedResource(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    singular_name: str = ""
    short_names: tuple[str, ...] = ()


class _GroupName(Struct, frozen=True):
    name: str


class _Groups(Struct, frozen=True):
    """The response of ``/apis``."""

    groups: list[_GroupName] | None = None


class _ServedResources(Struct, frozen=True):
    """The response of ``/apis/GROUP/VERSION``."""

    resources: list[_ServedResource] | None = None


@dataclass(frozen=True, slots=True)
class _CachedGroup:
    read_at: float
    resources: dict[str, Resource]
    by_short_name: dict[str, Resource]
    """Resources by lower-case kind, singular name and short name, all of which kubectl accepts as well."""
    by_kind: dict[str, Resource]
    subresources: set[str]
    """Subresources such as ``jobs/status``, of the version in which a resource is known."""


class Discovery:
    """A cache of discovery documents that resolves group-resources."""

    def __init__(
        self, client: Client, *, clock: Clock = SYSTEM, priority: RequestPriority = RequestPriority.NORMAL
    ) -> None:
        self.priority = priority
        """The priority of the requests."""

        self._client = client
        self._clock = clock
        self._groups: dict[str, _CachedGroup] = {}
        self._served_groups: tuple[float, frozenset[str]] | None = None
        """The time of the last answer of ``/apis``, and its groups."""

        self._served_lock = asyncio.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resolve(self, wanted: GroupResource) -> Resource | None:
        """Return the kind in its preferred version, None if the server does not serve it; raises `ApiError`.

        A group that answers with an error (an aggregated API server that is down) is unknown, not absent.
        """
        known = await self._group(wanted.group, lambda cached: wanted.resource in cached.resources)
        return known.resources.get(wanted.resource)

    async def served_groups(self) -> frozenset[str]:
        """Return the API groups that the server serves, with the core group ""; raises `ApiError`.

        One request answers for any number of names that nobody serves.
        """
        async with self._served_lock:
            known = self._served_groups
            if known is None or self._clock.now() - known[0] >= NEGATIVE_CACHE_SECONDS:
                answer = await self._client.read("/apis", _Groups, priority=self.priority)
                known = self._clock.now(), frozenset({"", *(group.name for group in answer.groups or ())})
                self._served_groups = known
        return known[1]

    async def resolve_kind(self, group: str, kind: str, *, subresource: str = "") -> Resource | None:
        """Return a kind in its preferred version, None if the server does not serve it, with the subresource if given.

        Raises `ApiError`.
        """
        known = await self._group(group, lambda cached: kind in cached.by_kind)
        resource = known.by_kind.get(kind)
        if resource is None or (subresource and f"{resource.plural}/{subresource}" not in known.subresources):
            return None
        return resource

    async def expand_shortcut(self, wanted: GroupResource) -> GroupResource | None:
        """Return the group-resource for a name such as ``deploy`` or ``jobs.v1.batch``; raises `ApiError`.

        Resolves like kubectl, for command lines and error texts: a reference in an object is taken literally. The group
        as written comes first, then the built-in groups.
        """
        served = await self.served_groups()
        for group in dict.fromkeys((wanted.group, wanted.unversioned.group, "", "apps", "batch", *sorted(served))):
            if group not in served:
                continue
            known = await self._group(group, lambda _: True)
            name = wanted.resource.lower()
            resource = known.resources.get(name) or known.by_short_name.get(name)
            if resource is not None and resource.namespaced:
                return GroupResource(resource=resource.plural, group=group)
        return None

    async def _group(self, group: str, is_answer: Callable[[_CachedGroup], bool]) -> _CachedGroup:
        """Return a group; a cached one that has no answer is read again soon."""
        lock = self._locks.setdefault(group, asyncio.Lock())
        async with lock:  # a thousand claims of one kind send one request
            known = self._groups.get(group)
            if known is None or self._clock.now() - known.read_at >= (
                CACHE_SECONDS if is_answer(known) else NEGATIVE_CACHE_SECONDS
            ):
                known = await self._read_group(group)
                self._cache_group(group, known)
        return known

    def invalidate(self, group: str) -> None:
        """Drop a group from the cache: an object that should exist was not found under the cached path."""
        self._groups.pop(group, None)

    async def _read_group(self, group: str) -> _CachedGroup:
        """Return the resources of a group; of a kind in several versions, the preferred version or else the first."""
        resources: dict[str, Resource] = {}
        by_short_name: dict[str, Resource] = {}
        by_kind: dict[str, Resource] = {}
        subresources: set[str] = set()
        known = _CachedGroup(self._clock.now(), resources, by_short_name, by_kind, subresources)
        try:
            versions = await self._versions(group)
        except (NotFound, InvalidNameError):
            return known
        for version in versions:
            try:
                served = await self._client.read(group_path(group, version), _ServedResources, priority=self.priority)
            except NotFound:  # removed since
                continue
            for entry in served.resources or ():
                if "/" not in entry.name and entry.name not in resources:  # a slash separates a subresource
                    resources[entry.name] = Resource(group, version, entry.name, entry.kind, entry.namespaced)
                    by_kind.setdefault(entry.kind, resources[entry.name])
                    for nickname in (entry.kind.lower(), entry.singular_name, *entry.short_names):
                        by_short_name.setdefault(nickname, resources[entry.name])
            for entry in served.resources or ():
                plural, slash, _ = entry.name.partition("/")
                if slash and plural in resources and resources[plural].version == version:
                    subresources.add(entry.name)
        return known

    async def _versions(self, group: str) -> list[str]:
        if not group:
            return ["v1"]
        answer = await self._client.read(group_path(group), _Group, priority=self.priority)
        preferred = [answer.preferred_version.version] if answer.preferred_version else []
        return list(dict.fromkeys([*preferred, *(version.version for version in answer.versions)]))

    def _cache_group(self, group: str, known: _CachedGroup) -> None:
        self._groups.pop(group, None)
        while len(self._groups) >= GROUPS_MAX:
            del self._groups[next(iter(self._groups))]
        self._groups[group] = known
