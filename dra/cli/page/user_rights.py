"""Finds out by SubjectAccessReviews which part of the cluster a user may see.

Claims decide: a user who may list and watch claims in all namespaces sees all namespaces, else the one namespace that
the user names. Namespaces are never tried one after the other: with thousands of namespaces, each user would cost
thousands of reviews. All other kinds are reviewed once, where claims are visible.

A right that was not granted before is reviewed after watches, and after the rights that open pages depend on: a user
who names one namespace after the other delays neither.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dra.api.colocation.well_known import CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE
from dra.cli.kubectl.snapshots.cluster_reader import COLOCATION_CONFIG, DEVICE_TAINT_RULES
from dra.cli.page.access import Refusal
from dra.cli.page.review_cache import ReviewCache
from dra.cli.page.scopes import FOLLOWED, LISTED, WORKLOAD_KINDS, Scope
from dra.cli.page.token_reviews import User
from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, CONFIG_MAPS, NAMESPACES, SUBJECT_ACCESS_REVIEWS, Resource
from dra.model.meta import Struct

LIST: Final = ("list",)
LIST_AND_WATCH: Final = ("list", "watch")


class _ReviewStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _SubjectAccessReview(Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


@dataclass(frozen=True, slots=True)
class Access:
    """One verb on one kind, in a namespace ("": all namespaces, or the kind has none)."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class RightsReviewer:
    """Reviews what users may do."""

    def __init__(self, client: Client, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._cache: ReviewCache[tuple[User, Access], bool] = ReviewCache(clock=clock)

    async def scope_of(self, user: User, namespace: str) -> Scope | Refusal:
        """Return what a user may see, or why that is nothing; raise ApiError if a review fails.

        ``namespace``: the namespace that the user names, "" if none. It only matters to a user who may not list claims
        in all namespaces.
        """
        if await self._may(user, _accesses(CLAIMS, LIST_AND_WATCH, "")):
            return await self._scope(user, None)
        if not namespace:
            text = f"{user.name} may not list and watch {CLAIMS.label} in all namespaces; sign in with a namespace"
            return Refusal(403, text)
        if await self._may(user, _accesses(CLAIMS, LIST_AND_WATCH, namespace)):
            return await self._scope(user, namespace)
        return Refusal(403, f"{user.name} may not list and watch {CLAIMS.label} in namespace {namespace}")

    async def _scope(self, user: User, namespace: str | None) -> Scope:
        wanted = tuple(_wanted(namespace))
        answers = await asyncio.gather(*(self._may(user, accesses) for _, accesses in wanted))
        granted = (label for (label, _), allowed in zip(wanted, answers, strict=True) if allowed)
        return Scope(namespace=namespace, granted=frozenset(granted))

    async def _may(self, user: User, accesses: Iterable[Access]) -> bool:
        for access in accesses:
            if not await self._cache.answer((user, access), partial(self._review, user, access)):
                return False
        return True

    async def _review(self, user: User, access: Access) -> bool:
        priority = RequestPriority.NORMAL if self._cache.last_answer((user, access)) else RequestPriority.BULK
        attributes = {
            "verb": access.verb,
            "group": access.group,
            "resource": access.resource,
            "namespace": access.namespace,
            "name": access.name,
        }
        spec: dict[str, Any] = {"resourceAttributes": attributes, "user": user.name, "groups": [*user.groups]}
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: [*values] for key, values in user.extra}
        review = await self._client.create(
            SUBJECT_ACCESS_REVIEWS, {"spec": spec}, model=_SubjectAccessReview, priority=priority
        )
        return review.status.allowed and not review.status.denied


def _wanted(namespace: str | None) -> Iterator[tuple[str, tuple[Access, ...]]]:
    """Yield the kinds besides claims, each with the access that shows its objects in a namespace, or in all."""
    for resource in FOLLOWED:
        yield resource.label, _accesses(resource, LIST_AND_WATCH, namespace or "")
    for resource in LISTED:
        if resource != NAMESPACES:
            yield resource.label, _accesses(resource, LIST, namespace or "")
    # A role in a namespace can grant to read its Namespace, but not to list all Namespaces.
    name = namespace or ""
    yield NAMESPACES.label, (Access("get" if name else "list", "", NAMESPACES.plural, name, name),)
    yield str(DEVICE_TAINT_RULES), (Access("list", DEVICE_TAINT_RULES.group, DEVICE_TAINT_RULES.resource),)
    yield COLOCATION_CONFIG, (Access("get", "", CONFIG_MAPS.plural, CONFIG_MAP_NAMESPACE, CONFIG_MAP_NAME),)
    for kind in WORKLOAD_KINDS:
        yield str(kind), (Access("list", kind.group, kind.resource, namespace or ""),)


def _accesses(resource: Resource, verbs: Iterable[str], namespace: str) -> tuple[Access, ...]:
    where = namespace if resource.namespaced else ""
    return tuple(Access(verb, resource.group, resource.plural, where) for verb in verbs)
