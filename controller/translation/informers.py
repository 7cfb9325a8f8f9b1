"""The informer of templates of translated requests, where no other part watches templates (mode alongside).

Pods come from the informer of the claim loop, card sizes from `controller.card_informer`, and in mode replace templates
from the informers of claim generation.
"""

from collections.abc import Callable

from dra.engine.translation import template_names
from dra.engine.translation.template_index import TemplateIndex
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import TEMPLATES
from dra.model.templates import ResourceClaimTemplate, WatchedTemplate


def templates_of_requests(
    client: Client, *, index: TemplateIndex, clock: Clock, on_change: Callable[[], None]
) -> Reflector[WatchedTemplate]:
    """Return a reflector that stores the templates with names of translated requests, and feeds the index."""
    return Reflector(
        client,
        TEMPLATES,
        WatchedTemplate,
        handler=EventHandlerFuncs[WatchedTemplate](
            on_upsert=index.observe_template,
            on_delete=lambda found: index.forget_template(found.metadata.key, found.metadata.uid),
            on_restore=ignore,
            on_batch_end=on_change,
        ),
        keep=_is_named_after_a_request,
        clock=clock,
    )


def _is_named_after_a_request(template: ResourceClaimTemplate) -> bool:
    return template_names.parse(template.metadata.name) is not None
