"""Lists kinds of objects as far as the user may: what cannot be read is recorded as a gap.

A user who may read one namespace gets the objects of that namespace.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from dra.cli.kubectl.snapshots.shared_values import SharedValues
from dra.engine.diagnosis.snapshot import UnreadResource
from dra.kube.client import Client, Selection
from dra.kube.codec import ApiObject, codec_of
from dra.kube.errors import Forbidden, NotFound
from dra.kube.large_objects import LargeObjectLedger, report_nothing
from dra.kube.resources import Resource

NAMED_MAX: Final = 16
"""Maximum number of unreadable objects of a kind that are named."""

Found = TypeVar("Found", bound=ApiObject)


class ObjectLists:
    """Lists kinds, and remembers what could not be read."""

    def __init__(self, client: Client, *, namespace: str | None) -> None:
        """Create lists without gaps; where listing all namespaces is forbidden, ``namespace`` is listed, if any."""
        self.client = client
        self._namespace = namespace
        self.gaps: list[UnreadResource] = []
        self.limited_to_namespace = False
        """Whether a kind was read in the one namespace only."""

    def add_gap(self, resource: str, why: object) -> None:
        """Record that a resource, or a part of it, could not be read."""
        self.gaps.append(UnreadResource(resource=resource, why=str(why)))

    async def all(
        self,
        resource: Resource,
        model: type[Found],
        namespace: str | None,
        *,
        may_matter: Callable[[bytes], bool] | None = None,
    ) -> list[Found]:
        """List the objects of a kind in a namespace, None: in all; name those that cannot be read. Raise ApiError.

        ``may_matter`` tells by its JSON whether an object is to be decoded, see `Client.list_pages`; None: each is.
        """
        objects: list[Found] = []
        ledger = LargeObjectLedger(resource, report_nothing)
        reduce = codec_of(resource, model).reduce
        unreadable: dict[str, None] = {}
        shared = SharedValues()
        selection = Selection(namespace=namespace)
        async for page in self.client.list_pages(
            resource, model, selection=selection, may_matter=may_matter, ahead=True
        ):
            if page.first:
                objects.clear()
                unreadable.clear()
                ledger.retain({}, set())
            items, refused = ledger.admit_page(page, reduce=reduce)
            shared.share(items)
            objects += items
            unreadable |= dict.fromkeys(str(unread) for unread in (*page.unreadable, *refused))
        names = tuple(unreadable)
        for name in names[:NAMED_MAX]:
            self.add_gap(resource.label, f"{name} cannot be read")
        if len(names) > NAMED_MAX:
            more = f"{len(names) - NAMED_MAX} more objects cannot be read"
            self.add_gap(resource.label, more)
        return objects

    async def namespaced(
        self,
        resource: Resource,
        model: type[Found],
        *,
        needed: bool = False,
        may_matter: Callable[[bytes], bool] | None = None,
    ) -> list[Found]:
        """Read a kind in all namespaces, or in the selected namespace if only that is permitted; see `all`."""
        try:
            return await self.all(resource, model, None, may_matter=may_matter)
        except Forbidden as error:
            if self._namespace is None:
                if needed:
                    raise
                self.add_gap(resource.label, error)
                return []
        self.limited_to_namespace = True
        try:
            objects = await self.all(resource, model, self._namespace, may_matter=may_matter)
        except Forbidden as error:
            if needed:
                raise
            self.add_gap(resource.label, error)
            return []
        self.add_gap(f"{resource.label} of other namespaces", "no permission to list them")
        return objects

    async def cluster_scoped(self, resource: Resource, model: type[Found]) -> list[Found]:
        """Read a kind that has no namespaces, or none of its objects if that is not permitted."""
        try:
            return await self.all(resource, model, None)
        except (Forbidden, NotFound) as error:
            self.add_gap(resource.label, error)
            return []

    async def if_served(self, resource: Resource, model: type[Found]) -> list[Found] | None:
        """Read a kind in all namespaces; None if the server does not serve the kind."""
        try:
            return await self.all(resource, model, None)
        except NotFound:
            return None
        except Forbidden as error:
            self.add_gap(resource.label, error)
            return []
