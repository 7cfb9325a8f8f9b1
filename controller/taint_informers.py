"""The informers of device taints: ResourceSlices, and DeviceTaintRules where the API server serves them.

They are separate from the required informers: a controller without the right to read slices evicts no pods, and does
everything else.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from controller.metrics import ControllerMetrics
from controller.optional_informer import OptionalInformer
from controller.runtime import Runtime
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.informers import staleness
from dra.kube.reflector import Reflector
from dra.kube.resources import SLICES
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import Synced
from dra.model.references import GroupResource
from dra.model.slices import ResourceSliceTaints
from dra.model.taints import DeviceTaintRule

RULES: Final = GroupResource(resource="devicetaintrules", group=SLICES.group)
"""DeviceTaintRules: served in v1 by default from Kubernetes 1.37 on, before as alpha (1.33) or beta (1.36) and off by
default. The informer takes the version that the API server prefers."""


class TaintInformers:
    """Two reflectors that feed the taints of the cache; the second runs only while its kind is served."""

    def __init__(self, runtime: Runtime[ControllerMetrics], informers: SharedInformers, *, cache: ClaimCache) -> None:
        self._cache = cache
        self._informers = informers
        self.slices = Reflector(
            runtime.client,
            SLICES,
            ResourceSliceTaints,
            handler=EventHandlerFuncs[ResourceSliceTaints](
                on_upsert=self._observe_slice,
                on_delete=self._forget_slice,
                on_sync=self._slices_listed,
                on_restore=ignore,
                on_batch_end=informers.notify,
            ),
            clock=runtime.clock,
        )
        self.rules = OptionalInformer(
            runtime.client,
            kind=RULES,
            model=DeviceTaintRule,
            handler=EventHandlerFuncs(
                on_upsert=self._observe_rule,
                on_delete=self._forget_rule,
                on_restore=ignore,
                on_batch_end=informers.notify,
            ),
            on_gone=self._forget_rules,
            clock=runtime.clock,
        )

    async def run(self) -> None:
        """Watch slices and rules until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.slices.run(), name=f"reflect {SLICES.label}")
            group.create_task(self.rules.run(), name=f"watch {RULES}")

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of the slices; empty when ready. Rules are optional."""
        return [text for text in [staleness(self.slices)] if text]

    def _observe_slice(self, found: ResourceSliceTaints) -> None:
        self._cache.taints_changed(self._cache.taints.observe_slice(found))

    def _forget_slice(self, found: ResourceSliceTaints) -> None:
        self._cache.taints_changed(self._cache.taints.forget_slice(found.metadata.name))

    def _slices_listed(self, _: Synced) -> None:
        self._cache.taints_changed(self._cache.taints.slices_known())

    def _observe_rule(self, rule: DeviceTaintRule) -> None:
        self._cache.taints_changed(self._cache.taints.observe_rule(rule))

    def _forget_rule(self, rule: DeviceTaintRule) -> None:
        self._cache.taints_changed(self._cache.taints.forget_rule(rule.metadata.name))

    def _forget_rules(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Remove rules that are not in force any more, perhaps since their kind is not served."""
        for rule in rules:
            self._forget_rule(rule)
        self._informers.notify()
