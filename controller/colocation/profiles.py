"""Writes what ClusterColocationProfiles say into the parameters of the admission policy, and their status.

`dra.engine.profiles` decides what is written. The loop has no right on policies and on pods: see
deploy/colocation-profiles/rights.yaml.
"""

from typing import Final

from controller.reconciler import Reconciler, ReconcilerMetrics, Settings
from controller.runtime import Runtime
from dra.api.profiles import parameters
from dra.api.profiles.well_known import PARAMETERS
from dra.engine.instants import Instant, Moment
from dra.engine.profiles.cache import ProfileCache
from dra.engine.profiles.decide import WriteConditions, WriteParameters, decide
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.errors import NotFound
from dra.kube.event_handlers import ignore
from dra.kube.resources import COLOCATION_PROFILE_PARAMETERS, COLOCATION_PROFILES, PRIORITY_CLASSES
from dra.kube.shared_informers import SharedInformers
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.preemption import PriorityClass

MANAGER: Final = "dra-reserve-profiles"


class ProfileInformers(SharedInformers):
    """The objects that the evaluation of profiles depends on, and the parameters as last written."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        super().__init__(client, clock=clock)
        self.profiles = self.informer(COLOCATION_PROFILES, UnstructuredObject)
        self.classes = self.informer(PRIORITY_CLASSES, PriorityClass)
        self.parameters = self.informer(
            COLOCATION_PROFILE_PARAMETERS,
            UnstructuredObject,
            selection=Selection(fields=f"metadata.name={PARAMETERS}"),
        )


class Profiles(Reconciler[str]):
    """The loop that keeps the parameters of the admission policy and the status of profiles up to date."""

    settings = Settings(name="colocation", workers=1, retry=(0.2, 60.0))
    cache: ProfileCache

    def __init__(self, runtime: Runtime[ReconcilerMetrics], informers: ProfileInformers) -> None:
        cache = ProfileCache()
        profiles, classes, settings = informers.profiles, informers.classes, informers.parameters
        super().__init__(runtime, informers, cache, needs=(profiles, classes, settings))
        profiles.subscribe(cache.observe_profile, cache.forget_profile, restored=ignore)
        classes.subscribe(cache.observe_class, cache.forget_class, restored=ignore)
        settings.subscribe(cache.observe_parameters, cache.forget_parameters, restored=ignore)

    async def reconcile(self, key: str, now: Moment) -> Instant:  # noqa: ARG002 - there is one key
        """Write the parameters and the conditions that are not right; raise ApiError."""
        plan = decide(self.cache.view(), now=now)
        for action in plan.actions:
            match action:
                case WriteParameters():
                    await self._write_parameters(action)
                case WriteConditions():
                    await self._write_conditions(action)
        return plan.wake_at

    async def _write_parameters(self, action: WriteParameters) -> None:
        content = {
            "apiVersion": parameters.API_VERSION,
            "kind": parameters.KIND,
            "metadata": {"name": PARAMETERS},
            "spec": action.spec,
        }
        await self._runtime.client.apply(
            COLOCATION_PROFILE_PARAMETERS,
            ("", PARAMETERS),
            content,
            model=PartialObjectMetadata,
            manager=MANAGER,
            force=True,
            timeout_seconds=self._runtime.write_timeout(),
        )

    async def _write_conditions(self, action: WriteConditions) -> None:
        try:
            await self._runtime.client.merge_patch(
                COLOCATION_PROFILES,
                ("", action.name),
                {"status": {"conditions": list(action.conditions)}},
                model=PartialObjectMetadata,
                uid=action.uid,
                subresource="status",
                timeout_seconds=self._runtime.write_timeout(),
            )
        except NotFound:
            return
