"""The informers of templates: the ResourceSlices of the GPU driver, and templates where no other part watches them.

Pods come from the informer of the claim loop. In mode replace, templates come from the informers of claim generation;
elsewhere only templates with names of translated requests are stored.
"""

from collections.abc import Callable
from typing import Final

from dra.api.koordinator import well_known
from dra.engine.translation import template_names
from dra.engine.translation.card_sizes import CardSizes
from dra.engine.translation.template_index import TemplateIndex
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.informers import Informers
from dra.kube.reflector import Reflector
from dra.kube.resources import SLICES, TEMPLATES
from dra.model.slices import ResourceSliceCapacities
from dra.model.templates import ResourceClaimTemplate

CARD_SLICES: Final = Selection(fields=f"spec.driver={well_known.GPU_DRIVER}")


class TranslationInformers(Informers):
    """The reflectors that feed the index of templates and the card sizes."""

    def __init__(
        self,
        client: Client,
        *,
        index: TemplateIndex,
        sizes: CardSizes,
        clock: Clock,
        on_change: Callable[[], None],
        watches_templates: bool,
    ) -> None:
        """Create the informers; without ``watches_templates`` another informer feeds the templates of the index."""
        self._sizes = sizes
        self.slices = Reflector(
            client,
            SLICES,
            ResourceSliceCapacities,
            handler=EventHandlerFuncs[ResourceSliceCapacities](
                on_upsert=sizes.observe_slice,
                on_delete=lambda found: sizes.forget_slice(found.metadata.name),
                on_restore=ignore,
                on_batch_end=on_change,
            ),
            selection=CARD_SLICES,
            clock=clock,
        )
        self.templates = Reflector(
            client,
            TEMPLATES,
            ResourceClaimTemplate,
            handler=EventHandlerFuncs[ResourceClaimTemplate](
                on_upsert=index.observe_template,
                on_delete=lambda found: index.forget_template(found.metadata.key, found.metadata.uid),
                on_restore=ignore,
                on_batch_end=on_change,
            ),
            keep=_is_named_after_a_request,
            clock=clock,
        )
        super().__init__(self.slices, *([self.templates] if watches_templates else []))


def _is_named_after_a_request(template: ResourceClaimTemplate) -> bool:
    return template_names.parse(template.metadata.name) is not None
