"""The informers of device taints: ResourceSlices, and DeviceTaintRules where the API server serves them.

They are separate from the required informers: a controller without the right to read slices evicts no pods, and does
everything else.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from controller.optional_informer import OptionalInformer
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.informers import staleness
from dra.kube.reflector import Reflector
from dra.kube.resources import SLICES
from dra.kube.store import Change, Deleted, Synced, Upserted
from dra.model.references import GroupResource
from dra.model.slices import ResourceSliceTaints
from dra.model.taints import DeviceTaintRule

RULES: Final = GroupResource(resource="devicetaintrules", group=SLICES.group)
"""DeviceTaintRules: served in v1 by default from Kubernetes 1.37 on, before as alpha (1.33) or beta (1.36) and off by
default. The informer takes the version that the API server prefers."""


class TaintInformers:
    """Two reflectors that feed the taints of the cache; the second runs only while its kind is served."""

    def __init__(self, client: Client, *, world: ClaimCache, clock: Clock, woken: Callable[[], None]) -> None:
        self._world = world
        self._woken = woken
        self.slices = Reflector(client, SLICES, ResourceSliceTaints, sink=self._slices, clock=clock)
        self.rules = OptionalInformer(
            client, kind=RULES, model=DeviceTaintRule, sink=self._rules, gone=self._forget_rules, clock=clock
        )

    async def run(self) -> None:
        """Watch slices and rules until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.slices.run(), name=f"reflect {SLICES.label}")
            group.create_task(self.rules.run(), name=f"watch {RULES}")

    def troubles(self) -> list[str]:
        """Return the staleness of the slices; empty when ready. Rules are optional."""
        return [text for text in [staleness(self.slices)] if text]

    def _forget_rules(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Remove rules that are not in force any more, perhaps since their kind is not served."""
        for rule in rules:
            self._world.taints_changed(self._world.taints.forget_rule(rule.metadata.name))
        self._woken()

    def _slices(self, changes: list[Change[ResourceSliceTaints]]) -> None:
        taints = self._world.taints
        for change in changes:
            match change:
                case Upserted(obj=found):
                    self._world.taints_changed(taints.observe_slice(found))
                case Deleted(obj=found):
                    self._world.taints_changed(taints.forget_slice(found.metadata.name))
                case Synced():
                    self._world.taints_changed(taints.slices_known())
        self._woken()

    def _rules(self, changes: list[Change[DeviceTaintRule]]) -> None:
        taints = self._world.taints
        for change in changes:
            match change:
                case Upserted(obj=rule):
                    self._world.taints_changed(taints.observe_rule(rule))
                case Deleted(obj=rule):
                    self._world.taints_changed(taints.forget_rule(rule.metadata.name))
                case _:
                    pass
        self._woken()
