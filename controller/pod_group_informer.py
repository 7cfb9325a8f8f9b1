"""The informer of PodGroups, where the API server serves them: claims are generated for them, too."""

from collections.abc import Callable, Iterable

from controller.optional_informer import OptionalInformer
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.resources import Resource
from dra.model.references import POD_GROUPS
from dra.model.templates import PodGroup


class PodGroupInformer:
    """A reflector that feeds the index of claim owners, and runs only while its kind is served.

    PodGroups need not be listed before claims are generated: only pods that name a PodGroup depend on it, and each of
    these waits for itself.
    """

    def __init__(self, client: Client, *, owners: ClaimOwnerIndex, clock: Clock, on_change: Callable[[], None]) -> None:
        self._owners = owners
        owners.groups_known = False
        self._on_change = on_change
        self._groups = OptionalInformer(
            client,
            kind=POD_GROUPS,
            model=PodGroup,
            handler=EventHandlerFuncs(
                on_upsert=owners.observe_group,
                on_delete=self._forget,
                on_restore=ignore,
                on_batch_end=on_change,
            ),
            on_served=self._groups_served,
            on_settled=self._groups_settled,
            on_gone=self._groups_gone,
            clock=clock,
        )

    async def run(self) -> None:
        """Watch PodGroups until cancelled."""
        await self._groups.run()

    def _forget(self, group: PodGroup) -> None:
        self._owners.forget(group.metadata.uid)

    def _groups_served(self, resource: Resource | None) -> None:
        if self._owners.observe_groups_version(resource.version if resource is not None else ""):
            self._on_change()

    def _groups_settled(self, reason: str) -> None:
        if self._owners.observe_groups_readable(reason):
            self._on_change()

    def _groups_gone(self, groups: Iterable[PodGroup]) -> None:
        for group in groups:
            self._owners.forget(group.metadata.uid)
        self._on_change()
