"""What a server has now and how it got there: watches of all namespaces, so that looking costs no request."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.claims import bound, finished, revision
from tests.scenarios.resources import CLAIMS, EVENTS, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.scenarios.api import Api
    from tests.scenarios.resources import Resource

Json = dict[str, Any]

WATCHED: Final = (PODS, CLAIMS, EVENTS)


@dataclass(frozen=True)
class Vanished:
    """A pod whose containers may still run although its object is gone."""

    pod: Json
    """The pod as it last was."""
    at: float = field(default_factory=time.monotonic)


@dataclass
class Sight:
    """One namespace as it is now."""

    present: dict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    """Objects by resource and name."""
    ever: dict[str, Json] = field(default_factory=dict)
    """Pods and claims that ever were there, by uid, in the order in which they came, each as it first was."""
    writes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Versions of each pod and claim, by uid."""
    ended: dict[str, int] = field(default_factory=dict)
    """The resourceVersion with which each pod that ended was first seen to have ended."""
    vanished: dict[str, Vanished] = field(default_factory=dict)
    """By uid, each pod that was bound and had not ended when its object went."""
    claim_versions: list[Json] = field(default_factory=list)
    changed_at: float = field(default_factory=time.monotonic)
    """When a pod or a claim last changed."""
    version: int = 0

    def of(self, resource: Resource) -> list[Json]:
        """Return the present objects of a resource."""
        return list(self.present[resource.plural].values())

    def take(self, resource: Resource, change: str, obj: Json) -> None:
        """Take in what a watch says."""
        self.version += 1
        name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
        if change == "DELETED":
            self.present[resource.plural].pop(name, None)
        else:
            self.present[resource.plural][name] = obj
        if resource is EVENTS:
            return
        self.changed_at = time.monotonic()
        self.ever.setdefault(uid, obj)
        self.writes[uid] += 1
        if resource is CLAIMS:
            self.claim_versions.append(obj)
        elif finished(obj):
            self.ended.setdefault(uid, int(revision(obj)))
        elif change == "DELETED" and bound(obj):
            self.vanished[uid] = Vanished(obj)


class Mirror:
    """A server's pods, claims and events; made by `follow`."""

    def __init__(self, api: Api) -> None:
        self.api: Final = api
        self._sights: Final[dict[str, Sight]] = defaultdict(Sight)
        self._reached: Final = dict.fromkeys((resource.plural for resource in WATCHED), 0)

    def sight(self, namespace: str) -> Sight:
        """Return what is to be seen in a namespace; the same object every time."""
        return self._sights[namespace]

    def has_reached(self, resource: Resource, moment: str) -> bool:
        """Tell whether everything up to a resourceVersion of that resource has arrived."""
        return self._reached[resource.plural] >= int(moment)

    async def follow(self, resource: Resource) -> None:
        """Take in what happens to a resource, until cancelled."""
        found = await self.api.request("GET", resource.path())
        since = revision(found)
        for obj in found["items"]:
            self._take(resource, "ADDED", obj)
        self._reached[resource.plural] = int(since)
        while True:  # the server ends every watch after a while
            events = self.api.watch(resource, resourceVersion=since, allowWatchBookmarks="true")
            async with aclosing(events):
                async for change, obj in events:
                    if change == "ERROR":
                        raise RuntimeError(f"the watch of {resource.plural} was cut off: {obj.get('message')}")
                    since = revision(obj)
                    if change != "BOOKMARK":
                        self._take(resource, change, obj)
                    self._reached[resource.plural] = int(since)

    def _take(self, resource: Resource, change: str, obj: Json) -> None:
        self._sights[obj["metadata"]["namespace"]].take(resource, change, obj)


@asynccontextmanager
async def following(api: Api) -> AsyncIterator[Mirror]:
    """Yield a mirror that is kept up to date."""
    mirror = Mirror(api)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(mirror.follow(resource)) for resource in WATCHED]
        try:
            yield mirror
        finally:
            for task in tasks:
                task.cancel()
