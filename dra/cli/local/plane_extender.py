"""Adds Reservations to a plane: the extender of real clusters, in the plane's process, called by its scheduler.

The code is the same, with its own connection to the server (component ``extender``), so that faults can cut it off or
crash it. Only HTTP between scheduler and extender is left out, and so is preemption: the plane's scheduler does not
preempt.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from controller.extender.application import Extender
from controller.extender.writer import UnknownOutcomeError
from dra.api.extender_configuration import ExtenderConfiguration
from dra.api.migration import crd as migration_crd
from dra.api.reservations import crd
from dra.cli.local.plane_definitions import apply_definitions
from dra.engine.reservations.placeholders import KOORD_SCHEDULER
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.kube.client import WRITE_TIMEOUT
from dra.kube.store import ServerRestoredError
from dra.model.extender_protocol import ExtenderBindingArgs
from dra.model.scheduling import SchedulerPod
from localplane.plane.local_plane import LocalPlane
from localplane.scheduler import scheduler_extender
from localplane.transport import LocalTransport

EXTENDER_COMPONENT: Final = "extender"

EXTENDER_CONFIGURATION: Final = ExtenderConfiguration.model_validate(
    {
        "leaderElection": {"enabled": False, "namespace": "kube-system"},
        "probes": None,
        "metrics": None,
        "qps": 1e6,
        "burst": 1_000_000,
        "bindPlaceholders": True,  # the scheduler of the plane waits for the binding
    }
)

_POLL_INTERVAL: Final = 0.05
_log: Final = logging.getLogger(__name__)


def add_extender(plane: LocalPlane) -> "PlaneExtender":
    """Add an extender to a plane, before the plane runs."""
    extender = PlaneExtender(plane)
    plane.use_extender(extender, profiles=(KOORD_SCHEDULER,))
    plane.add_component(EXTENDER_COMPONENT, extender.run)
    return extender


class PlaneExtender:
    """The extender as a component of a plane, with the interface that the plane's scheduler calls."""

    def __init__(self, plane: LocalPlane) -> None:
        self._plane = plane
        self._extender: Extender | None = None
        self._runs = 0
        self._binding: set[asyncio.Task[None]] = set()
        """Bindings under way: they end with the extender, and outlive the scheduler that called them."""

    async def run(self) -> None:
        """Run the extender until cancelled; start it again when the server was restored from a snapshot."""
        client = self._plane.client(EXTENDER_COMPONENT)
        await apply_definitions(client, (crd.custom_resource_definition(), migration_crd.custom_resource_definition()))
        while True:
            # A write of an earlier run may still be under way; a write of another process cannot.
            quiet = WRITE_TIMEOUT if self._runs else 0.0
            self._runs += 1
            transport = LocalTransport(self._plane.handler_for(EXTENDER_COMPONENT))
            self._extender = Extender(
                EXTENDER_CONFIGURATION, transport, clock=self._plane.clock, previous_writes_seconds=quiet
            )
            try:
                await self._extender.work()
            except* ServerRestoredError as errors:
                _log.warning("%s", errors.exceptions[0])
            finally:
                self._extender = None
                for task in self._binding:
                    task.cancel()

    @property
    def is_ready(self) -> bool:
        """Whether the extender answers calls."""
        return self._extender is not None and not self._extender.not_ready_reasons()

    async def wait_ready(self) -> None:
        """Wait until the extender is ready."""
        while not self.is_ready:  # noqa: ASYNC110 - three watches and a start make it so, none of which tells
            await asyncio.sleep(_POLL_INTERVAL)

    def filter(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, str]:
        """Return the nodes on which the pod cannot run, each with the reason."""
        if self._extender is None:
            return dict.fromkeys(nodes, "the extender does not run")
        result = self._extender.handler.filter(pod, nodes)
        return {**result.failed_nodes, **result.failed_and_unresolvable_nodes}

    def prioritize(self, pod: SchedulerPod, nodes: Sequence[str], /) -> Mapping[str, int]:
        """Return the scores of nodes."""
        if self._extender is None:
            return {}
        return {priority.host: priority.score for priority in self._extender.handler.prioritize(pod, nodes)}

    async def bind(self, pod: SchedulerPod, node: str, /) -> None:
        """Bind a pod to a node; raise ExtenderRefusedError or ExtenderUnansweredError."""
        if self._extender is None:
            raise scheduler_extender.ExtenderRefusedError("the extender does not run")
        meta = pod.metadata
        call = ExtenderBindingArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node)
        task = asyncio.ensure_future(self._extender.handler.bind(call))
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)
        await asyncio.wait((task,))
        try:
            task.result()
        except asyncio.CancelledError as error:
            raise scheduler_extender.ExtenderUnansweredError("the extender ended during the call") from error
        except WriteRefusedError as error:
            raise scheduler_extender.ExtenderRefusedError(str(error)) from error
        except UnknownOutcomeError as error:
            raise scheduler_extender.ExtenderUnansweredError(str(error)) from error
