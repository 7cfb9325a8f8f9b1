"""The informers of claim generation: ResourceClaimTemplates, and PodGroups where the API server serves them."""

import asyncio
from collections.abc import Callable, Iterable

from controller.optional_informer import OptionalInformer
from dra.engine.claims.generation.owner_index import ClaimOwnerIndex
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.informers import staleness
from dra.kube.reflector import Reflector
from dra.kube.resources import TEMPLATES, Resource
from dra.model.references import POD_GROUPS
from dra.model.templates import PodGroup, ResourceClaimTemplate, WatchedTemplate


class TemplateInformers:
    """Two reflectors that feed the index of claim owners; the second runs only while its kind is served."""

    def __init__(
        self,
        client: Client,
        *,
        owners: ClaimOwnerIndex,
        clock: Clock,
        on_change: Callable[[], None],
        on_template_add: Callable[[ResourceClaimTemplate], None] = ignore,
        on_template_delete: Callable[[ResourceClaimTemplate], None] = ignore,
    ) -> None:
        """Create the informers; ``on_template_add`` is called for updates, too."""
        self._owners = owners
        self._on_template_add = on_template_add
        self._on_template_delete = on_template_delete
        owners.groups_known = False
        self._on_change = on_change
        self.templates = Reflector(
            client,
            TEMPLATES,
            WatchedTemplate,
            handler=EventHandlerFuncs[WatchedTemplate](
                on_upsert=self._on_template,
                on_delete=self._on_template_deleted,
                on_restore=ignore,
                on_batch_end=on_change,
            ),
            clock=clock,
        )
        self.groups = OptionalInformer(
            client,
            kind=POD_GROUPS,
            model=PodGroup,
            handler=EventHandlerFuncs(
                on_upsert=owners.observe_group,
                on_delete=lambda group: owners.forget(group.metadata.uid),
                on_restore=ignore,
                on_batch_end=on_change,
            ),
            on_served=self._groups_served,
            on_settled=self._groups_settled,
            on_gone=self._groups_gone,
            clock=clock,
        )

    async def run(self) -> None:
        """Watch templates and PodGroups until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.templates.run(), name=f"reflect {TEMPLATES.label}")
            group.create_task(self.groups.run(), name=f"watch {POD_GROUPS}")

    async def wait_for_sync(self) -> None:
        """Wait until all templates are listed, so that an unknown template is a missing one.

        PodGroups need not be listed: only pods that name a PodGroup depend on it, and each of these waits for itself.
        """
        await self.templates.synced.wait()

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of the templates; empty when ready."""
        return [text for text in [staleness(self.templates)] if text]

    def _on_template(self, template: ResourceClaimTemplate) -> None:
        self._owners.observe_template(template)
        self._on_template_add(template)

    def _on_template_deleted(self, template: ResourceClaimTemplate) -> None:
        self._owners.forget_template(template.metadata.key)
        self._on_template_delete(template)

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
