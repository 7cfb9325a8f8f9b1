"""The informer of PodGroups, where the API server serves them: claims are generated for them, too."""

from collections.abc import Iterable

from controller.metrics import ControllerMetrics
from controller.optional_informer import OptionalInformer
from controller.runtime import Runtime
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.resources import Resource
from dra.kube.shared_informers import SharedInformers
from dra.model.references import POD_GROUPS
from dra.model.templates import PodGroup


class PodGroupInformer:
    """A reflector that feeds the index of claim owners, and runs only while its kind is served.

    PodGroups need not be listed before claims are generated: only pods that name a PodGroup depend on it, and each of
    these waits for itself.
    """

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: SharedInformers, *, owners: ClaimOwnerIndex
    ) -> None:
        self._owners = owners
        owners.groups_known = False
        self._informers = informers
        self._groups = OptionalInformer(
            runtime.client,
            kind=POD_GROUPS,
            model=PodGroup,
            handler=EventHandlerFuncs(
                on_upsert=owners.observe_group, on_delete=self._forget, on_restore=ignore, on_batch_end=informers.notify
            ),
            on_served=self._groups_served,
            on_settled=self._groups_settled,
            on_gone=self._groups_gone,
            clock=runtime.clock,
        )

    async def run(self) -> None:
        """Watch PodGroups until cancelled."""
        await self._groups.run()

    def _forget(self, group: PodGroup) -> None:
        self._owners.forget(group.metadata.uid)

    def _groups_served(self, resource: Resource | None) -> None:
        if self._owners.observe_groups_version(resource.version if resource is not None else ""):
            self._informers.notify()

    def _groups_settled(self, reason: str) -> None:
        if self._owners.observe_groups_readable(reason):
            self._informers.notify()

    def _groups_gone(self, groups: Iterable[PodGroup]) -> None:
        for group in groups:
            self._owners.forget(group.metadata.uid)
        self._informers.notify()
