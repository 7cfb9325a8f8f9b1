"""Controllers that have some rights and lack others, each with a namespace to work in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.scenarios import objects, steps
from tests.scenarios.api import Api
from tests.scenarios.conftest import ALONE
from tests.scenarios.controller import READY_WITHIN, Controller, Settings
from tests.scenarios.eventually import WITHIN
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.rights import Probe, Right
from tests.scenarios.target import Target

REFUSED_AFTER: Final = 6.0
"""Seconds after which a controller that lacks a right, and is not ready, is taken for refused."""

SOON: Final = 4.0
"""Seconds that a step takes at most in a scenario that lacks a right, and thus what such a scenario costs."""


@dataclass
class Workplace:
    """One controller with the rights in question, and a namespace for it to work in."""

    target: Target
    kubeconfig: Path
    namespace: Namespace
    devices: str
    ready_within: float
    soon: float
    """Seconds that each step may take: few where a right is lacking, which is to be seen by what does not happen."""

    controllers: list[Controller] = field(default_factory=list)

    def spawn(self, configuration: dict[str, Any] = ALONE) -> Controller:
        """Start the controller, if no other scenario has."""
        if not self.controllers:
            settings = Settings(kubeconfig=self.kubeconfig, mode=self.target.mode, configuration=configuration)
            self.controllers.append(Controller(self.target.folder, settings, name=self.namespace.name))
            self.controllers[0].spawn()
        return self.controllers[0]

    async def start(self, configuration: dict[str, Any] = ALONE) -> Controller:
        """The same; return when it is ready."""
        controller = self.spawn(configuration)
        await controller.is_ready(within=self.ready_within)
        return controller

    async def claim(self, name: str, **form: Any) -> None:
        """Create a claim on any of the devices."""
        await self.namespace.create(objects.claim(name, device_class=self.devices, **form))

    async def run(self, name: str, *, claim: str, gated: bool = True) -> None:
        """Let a pod run that uses the claim."""
        await self.namespace.create(objects.pod(name, PodShape(claim=claim, gated=gated)))
        await steps.pods_run(self.namespace, name, within=self.soon)


MakePlace = Callable[..., Awaitable[Workplace]]


@asynccontextmanager
async def workplaces(target: Target, api: Api, namespace: Namespace) -> AsyncIterator[MakePlace]:
    """Yield what makes the place for a controller that lacks some rights; at the end all of them are gone."""
    probe = Probe(api)
    await probe.create()
    places: list[Workplace] = []

    async def make(*missing: Right) -> Workplace:
        devices = await namespace.offer_devices(16)
        await probe.may_all_but(*missing)
        kubeconfig = probe.kubeconfig(target.admin, target.folder.path)
        within, soon = (REFUSED_AFTER, SOON) if missing else (READY_WITHIN, WITHIN)  # a busy machine lacks no rights
        places.append(Workplace(target, kubeconfig, namespace, devices, ready_within=within, soon=soon))
        return places[-1]

    try:
        yield make
    finally:
        for controller in (controller for place in places for controller in place.controllers):
            controller.process.kill()
        await probe.delete()
