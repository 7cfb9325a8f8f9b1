"""One pod of a Job gets a device of a claim that is reserved for the Job, and the device is freed after the Job.

The trial has a namespace of its own, which is deleted at its end, also after an interruption.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.trial_pods import restricted_pod, trial_namespace
from dra.cli.kubectl.verify.public_facts import WAITING_REASONS, known
from dra.kube.client import Selection
from dra.kube.resources import CLAIMS, JOBS, PODS
from dra.model.claims import ResourceClaim
from dra.model.diagnosed_pods import ContainerState
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct
from dra.model.pods import POD_SCHEDULED, PodCondition
from dra.model.workload_reservations import RESERVED_FOR

NAME: Final = "verify"
NOBODY: Final = 65534
"""User id without rights in any image."""

POLL_INTERVAL: Final = 0.25
"""Seconds between two reads of the claim and the pod, which the measured times may be late."""


PROGRAM_SECONDS: Final = 5
"""Seconds that the container runs."""


class _ContainerStatus(Struct, frozen=True):
    state: ContainerState = ContainerState()


class _TrialPodStatus(Struct, frozen=True):
    phase: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[_ContainerStatus] | None = None


class TrialPod(Struct, frozen=True):
    """The pod of the trial, reduced to its progress."""

    metadata: ObjectMeta
    status: _TrialPodStatus = _TrialPodStatus()

    @property
    def waits_for(self) -> str:
        """The reason for which a container waits, or else the scheduler's; one of a closed set, or empty."""
        for status in self.status.container_statuses or ():
            if status.state.waiting is not None and status.state.waiting.reason:
                return known(status.state.waiting.reason, WAITING_REASONS)
        for condition in self.status.conditions or ():
            if (condition.type, condition.status) == (POD_SCHEDULED, "False"):
                return known(condition.reason, WAITING_REASONS)
        return ""


class Step(StrEnum):
    """A step of a working installation with the pod and its claim, in this order."""

    POD_CREATED = "pod created"
    DEVICE_ALLOCATED = "device allocated"
    JOB_LISTED = "Job listed in the claim"
    POD_STARTED = "pod started"
    POD_ENDED = "pod ended"
    DEVICE_FREED = "device freed"


@dataclass(slots=True, kw_only=True)
class TrialResult:
    """The steps that were seen, each with the seconds since the start."""

    seconds: dict[Step, float] = field(default_factory=dict)
    waits_for: str = ""
    """Reason for which the pod waited last; one of a closed set."""

    refused: int | None = None
    """HTTP status of the error that ended the trial; None if it ran to its end."""

    @property
    def missing(self) -> Step | None:
        """The first step that was not seen; None if the trial has passed."""
        return next((step for step in Step if step not in self.seconds), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """The requests of the trial's pod, and how long it may take."""

    device_class: str
    image: str
    timeout: float
    own_user: bool = True
    """Whether the pod names a user without rights; OpenShift assigns one, and refuses others."""


def manifests(options: TrialOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the claim and the Job of the trial; the pod runs for some seconds, without any permission."""
    request = {"name": "device", "exactly": {"deviceClassName": options.device_class}}
    claim = {
        "metadata": {"name": NAME, "annotations": {RESERVED_FOR: f"jobs.batch/{NAME}"}},
        "spec": {"devices": {"requests": [request]}},
    }
    spec = restricted_pod(
        {"name": "main", "image": options.image, "command": ["sleep", str(PROGRAM_SECONDS)]},
        claim={"name": "device", "resourceClaimName": NAME},
        user=NOBODY if options.own_user else None,
    )
    template = {"spec": {"restartPolicy": "Never"} | spec}
    return claim, {"metadata": {"name": NAME}, "spec": {"backoffLimit": 0, "template": template}}


def seen_steps(claim: ResourceClaim, pods: Iterable[TrialPod], *, before: Iterable[Step]) -> set[Step]:
    """Return the steps that claim and pod show; a device counts as freed only after the pod has ended."""
    phases = {pod.status.phase for pod in pods}
    seen = {Step.POD_CREATED} if phases else set()
    if claim.status.allocation is not None:
        seen.add(Step.DEVICE_ALLOCATED)
    if any(entry.resource == "jobs" for entry in claim.entries):
        seen.add(Step.JOB_LISTED)
    if phases & {"Running", "Succeeded"}:
        seen.add(Step.POD_STARTED)
    if "Succeeded" in phases:
        seen.add(Step.POD_ENDED)
        if claim.status.allocation is None and Step.DEVICE_ALLOCATED in before:
            seen.add(Step.DEVICE_FREED)
    return seen


async def run_trial(
    connection: Connection, options: TrialOptions, *, report: Callable[[Step, float], None]
) -> TrialResult:
    """Run the trial and report each step when it is seen; raise ApiError if it cannot begin."""
    result = TrialResult()
    client, clock = connection.client, connection.clock
    async with trial_namespace(client, "dra-reserve-verify") as namespace:
        claim, job = manifests(options)
        began = clock.now()
        await client.create(CLAIMS, claim, model=PartialObjectMetadata, namespace=namespace)
        await client.create(JOBS, job, model=PartialObjectMetadata, namespace=namespace)
        while result.missing is not None and clock.now() < began + options.timeout:
            read = await client.get(CLAIMS, (namespace, NAME), ResourceClaim)
            pages = client.list_pages(PODS, TrialPod, selection=Selection(namespace=namespace))
            pods = [pod async for page in pages for pod in page.items]
            seen = seen_steps(read, pods, before=result.seconds)
            for step in (step for step in Step if step in seen and step not in result.seconds):
                result.seconds[step] = clock.now() - began
                report(step, result.seconds[step])
            result.waits_for = next((pod.waits_for for pod in pods if pod.waits_for), "")
            if any(pod.status.phase == "Failed" for pod in pods):
                break
            await asyncio.sleep(POLL_INTERVAL)
    return result
