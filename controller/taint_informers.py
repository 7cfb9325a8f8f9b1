"""The informers of device taints: ResourceSlices, and DeviceTaintRules where the API server serves them.

Nothing waits for them: a controller without the right to read slices evicts no pods, and does everything else.
"""

from collections.abc import Iterable
from typing import Final

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.optional_informer import OptionalInformer
from controller.runtime import Runtime
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.resources import SLICES
from dra.kube.store import Synced
from dra.model.references import GroupResource
from dra.model.slices import ResourceSliceTaints
from dra.model.taints import DeviceTaintRule

RULES: Final = GroupResource(resource="devicetaintrules", group=SLICES.group)
"""DeviceTaintRules: served in v1 by default from Kubernetes 1.37 on, before as alpha (1.33) or beta (1.36) and off by
default. The informer takes the version that the API server prefers."""


class TaintInformers:
    """Feeds the taints of the cache; the rules are watched only while their kind is served."""

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, cache: ClaimCache
    ) -> None:
        self._cache = cache
        self._informers = informers
        informers.slice_taints.subscribe(
            self._observe_slice, self._forget_slice, listed=self._slices_listed, restored=ignore
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
        """Watch rules until cancelled."""
        await self.rules.run()

    def _observe_slice(self, resource_slice: ResourceSliceTaints) -> None:
        self._cache.taints_changed(self._cache.taints.observe_slice(resource_slice))

    def _forget_slice(self, resource_slice: ResourceSliceTaints) -> None:
        self._cache.taints_changed(self._cache.taints.forget_slice(resource_slice.metadata.name))

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
