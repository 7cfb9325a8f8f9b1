"""Which version and kind stands behind ``jobs.batch``.

Asks for one API group at a time: the aggregated document of a cluster with many CRDs is megabytes, and a claim names
one kind. An unknown kind is None and not an error: its CRD may be installed later, so that answer is kept only shortly.
"""

import asyncio
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.errors import NotFound
from dra.kube.resources import InvalidNameError, Resource, group_path
from dra.model.meta import Struct
from dra.model.references import GroupResource

KNOWN_FOR: Final = 600.0
UNKNOWN_FOR: Final = 10.0
"""Seconds for which an answer is believed."""

GROUPS_MAX: Final = 512
"""Groups remembered. Anybody who may create a claim may name a group."""


class _GroupVersion(Struct, frozen=True):
    version: str


class _Group(Struct, frozen=True):
    """Answer of ``/apis/GROUP``."""

    versions: list[_GroupVersion]
    preferred_version: _GroupVersion | None = None


class _ServedResource(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False


class _ServedResources(Struct, frozen=True):
    """Answer of ``/apis/GROUP/VERSION``."""

    resources: list[_ServedResource] | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    asked_at: float
    resources: dict[str, Resource]


class Discovery:
    """Resolves kinds, and remembers them for a while."""

    def __init__(self, client: Client, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._groups: dict[str, _Known] = {}
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resolve(self, wanted: GroupResource) -> Resource | None:
        """Return the kind in its preferred version, None if the server does not serve it; raises `ApiError`.

        A group that answers with an error (an aggregated API server that is down) is unknown, not absent.
        """
        lock = self._asking.setdefault(wanted.group, asyncio.Lock())
        async with lock:  # a thousand claims of one kind ask once
            known = self._groups.get(wanted.group)
            if known is None or self._clock.now() - known.asked_at >= _lifetime(known, wanted):
                known = _Known(self._clock.now(), await self._ask(wanted.group))
                self._remember(wanted.group, known)
        return known.resources.get(wanted.resource)

    def forget(self, group: str) -> None:
        """Ask again next time: an object that should exist was not found under the path we knew."""
        self._groups.pop(group, None)

    async def _ask(self, group: str) -> dict[str, Resource]:
        """Return what the group serves; of a kind in several versions, the preferred or else the first."""
        found: dict[str, Resource] = {}
        try:
            versions = await self._versions(group)
        except (NotFound, InvalidNameError):
            return found
        for version in versions:
            try:
                served = await self._client.read(group_path(group, version), _ServedResources)
            except NotFound:  # removed since
                continue
            for each in served.resources or ():
                if "/" not in each.name and each.name not in found:  # with a slash it is a subresource
                    found[each.name] = Resource(group, version, each.name, each.kind, each.namespaced)
        return found

    async def _versions(self, group: str) -> list[str]:
        if not group:
            return ["v1"]
        answer = await self._client.read(group_path(group), _Group)
        preferred = [answer.preferred_version.version] if answer.preferred_version else []
        return list(dict.fromkeys([*preferred, *(each.version for each in answer.versions)]))

    def _remember(self, group: str, known: _Known) -> None:
        self._groups.pop(group, None)
        while len(self._groups) >= GROUPS_MAX:
            del self._groups[next(iter(self._groups))]
        self._groups[group] = known


def _lifetime(known: _Known, wanted: GroupResource) -> float:
    return KNOWN_FOR if wanted.resource in known.resources else UNKNOWN_FOR
