"""Watches what puts taints on devices: ResourceSlices, and DeviceTaintRules where there are any.

Beside the watches that everything depends on: whoever may not read slices evicts nobody, and does all else.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from controller.watches import trouble
from dra.engine.world import World
from dra.kube.backoff import Backoff
from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.discovery import Discovery
from dra.kube.errors import ApiError, NotFound
from dra.kube.reflector import Reflector
from dra.kube.resources import SLICES, Resource
from dra.kube.store import Change, Deleted, Synced, Upserted
from dra.model.meta import Key
from dra.model.references import GroupResource
from dra.model.slices import SliceOfTaints
from dra.model.taints import DeviceTaintRule

RULES: Final = GroupResource(resource="devicetaintrules", group=SLICES.group)
"""Alpha in 1.33, beta in 1.36 and off by default: whichever version is served, if any."""

ASK_AGAIN: Final = (10.0, 300.0)
"""Seconds, first and longest, between looks for a kind that is not served: gates change when an API server restarts."""

_log: Final = logging.getLogger(__name__)


class TaintWatches:
    """Two reflectors that feed the world's taints; the second only while its kind is served."""

    def __init__(self, client: Client, *, world: World, clock: Clock, woken: Callable[[], None]) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._woken = woken
        self._discovery = Discovery(client, clock=clock)
        self.slices = Reflector(client, SLICES, SliceOfTaints, sink=self._slices, clock=clock)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.slices.run(), name=f"reflect {SLICES.label}")
            group.create_task(self._follow_rules(), name=f"watch {RULES}")

    def troubles(self) -> list[str]:
        """Return what keeps us from knowing the slices; empty when ready. Rules are optional."""
        return [text for text in [trouble(self.slices)] if text]

    async def _follow_rules(self) -> None:
        """Watch the rules for as long as they are served, and look for them else."""
        backoff = Backoff(*ASK_AGAIN)
        while True:
            try:
                resource = await self._discovery.resolve(RULES)
            except ApiError as error:
                _log.warning("%s: not resolved (%s)", RULES, error)
            else:
                if resource is not None:
                    await self._reflect_rules(resource)
                    backoff.reset()
            await asyncio.sleep(backoff.next())

    async def _reflect_rules(self, resource: Resource) -> None:
        """Watch the rules until their kind is gone."""
        reflector = Reflector(self._client, resource, DeviceTaintRule, sink=self._rules, clock=self._clock)
        running = asyncio.create_task(reflector.run(), name=f"reflect {RULES}")
        try:
            while not running.done():
                await asyncio.sleep(1.0)
                if isinstance(reflector.failure, NotFound):
                    self._forget_rules(reflector.objects)
                    return
            running.result()  # raises what ended it
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _forget_rules(self, rules: Mapping[Key, DeviceTaintRule]) -> None:
        """Their kind is not served any more, so they are not in force."""
        self._discovery.forget(RULES.group)
        for _, name in rules:
            self._world.taints_changed(self._world.taints.forget_rule(name))
        self._woken()

    def _slices(self, changes: list[Change[SliceOfTaints]]) -> None:
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
