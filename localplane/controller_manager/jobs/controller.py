"""The Job controller's shell: decides, acts, and repeats until a Job needs nothing more."""

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from dra.kube.client import Client
from dra.kube.clock import Clock
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.resources import JOBS
from dra.kube.workqueue import WorkQueue
from dra.model.event_type import EventType
from dra.model.meta import Key, PartialObjectMetadata, Uid
from localplane.controller_manager.api_types import (
    Pod,
    controller_references,
    parse_time,
    pod_from_template,
)
from localplane.controller_manager.informer import Informer
from localplane.controller_manager.jobs.decision import JobPlan, decide
from localplane.controller_manager.jobs.job_pods import JobPodIndex, job_owner
from localplane.controller_manager.jobs.job_types import (
    JOB_COMPLETION_INDEX,
    JOB_TRACKING_FINALIZER,
    Job,
    has_tracking_finalizer,
)
from localplane.controller_manager.jobs.pod_failures import BackoffRecord
from localplane.controller_manager.object_control import ObjectControl, slow_start_batch

BATCH_SECONDS: Final = 0.25
"""Seconds that changes of pods are batched, so that ten thousand changes become a few writes of the Job."""


class JobController:
    """Creates and counts the pods of Jobs, and finishes Jobs."""

    def __init__(
        self, client: Client, *, jobs: Informer[Job], pods: Informer[Pod], recorder: EventRecorder, clock: Clock
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._pods = pods
        self._job_control = ObjectControl(client, jobs, clock=clock)
        self._pod_control = ObjectControl(client, pods, clock=clock)
        self._recorder = recorder
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._orphans: WorkQueue[Key] = WorkQueue(clock)
        self._job_pods = JobPodIndex()
        self._failures: dict[Uid, BackoffRecord] = {}
        self._unknown_owners: dict[Key, set[Uid]] = {}
        """Owner uids of pods that name a Job but do not match the uid of the cached Job."""
        jobs.add_event_handler(self._job_changed)
        pods.add_event_handler(self._pod_changed)

    async def run(self) -> None:
        """Reconcile Jobs until cancelled; start this when both informers have synced."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(self._sync), name="jobs")
            group.create_task(self._orphans.run(self._sync_orphan_pod), name="orphans of jobs")

    def _job_changed(self, job: Job, *, deleted: bool) -> None:
        if deleted:
            self._failures.pop(job.metadata.uid, None)
            self._unknown_owners.setdefault(job.metadata.key, set()).add(job.metadata.uid)
            for pod in self._pods.controlled_by(job.metadata.uid):
                self._pod_changed(pod, deleted=False)
        self._queue.add(job.metadata.key)

    def _pod_changed(self, pod: Pod, *, deleted: bool) -> None:
        self._job_pods.observe(pod, deleted=deleted)
        owner = job_owner(pod)
        if not deleted and has_tracking_finalizer(pod) and pod.metadata.controller is None:
            self._orphans.add(pod.metadata.key)
        elif owner is not None:
            key = (pod.metadata.namespace, owner.name)
            job = self._jobs.get(key)
            if job is None or job.metadata.uid != owner.uid:
                self._unknown_owners.setdefault(key, set()).add(owner.uid)
            self._queue.add_at(key, self._clock.now() + BATCH_SECONDS)

    async def _sync(self, key: Key) -> float | None:
        """Carry out all possible steps for a Job; return when to sync the Job again."""
        while True:
            if key in self._unknown_owners:
                await self._release_orphaned_pods(key)
            job = self._jobs.get(key)
            if job is None:
                return None
            if not job.is_managed_here:
                return None
            uid, now = job.metadata.uid, self._clock.wall()
            plan = decide(job, self._job_pods.pods_of(uid), failures=self._failures.get(uid, BackoffRecord()), now=now)
            if plan.changes_pods:
                await self._create_and_delete(job, plan)
                continue
            written = plan.status is not None and await self._write_status(job, plan)
            if plan.remove_finalizers:
                await slow_start_batch(plan.remove_finalizers, self._remove_finalizer)
            if not written and not plan.remove_finalizers:
                return (
                    await self._delete_after_ttl(job)
                    if plan.requeue_after is None
                    else self._clock.now() + plan.requeue_after
                )

    async def _create_and_delete(self, job: Job, plan: JobPlan) -> None:
        await slow_start_batch(plan.delete_counted, self._pod_control.delete)
        await slow_start_batch(plan.delete_uncounted, self._delete_uncounted)
        await slow_start_batch(plan.create, partial(self._create, job))

    async def _create(self, job: Job, index: int | None) -> None:
        name = f"{job.metadata.name}-" if index is None else f"{job.metadata.name}-{index}-"
        body = pod_from_template(job.spec.template, name=name, owners=controller_references(JOBS, job.metadata))
        meta = body["metadata"]
        meta["finalizers"] = [
            *(finalizer for finalizer in meta.get("finalizers", ()) if finalizer != JOB_TRACKING_FINALIZER),
            JOB_TRACKING_FINALIZER,
        ]
        if index is not None:
            meta["annotations"] = {**meta.get("annotations", {}), JOB_COMPLETION_INDEX: str(index)}
            meta["labels"] = {**meta.get("labels", {}), JOB_COMPLETION_INDEX: str(index)}
            body["spec"] = _with_completion_index({**body["spec"], "hostname": f"{job.metadata.name}-{index}"})
        await self._pod_control.create(body, namespace=job.metadata.namespace)

    async def _delete_uncounted(self, pod: Pod) -> None:
        # Removing the finalizer raises on failure: a pod deleted with its finalizer would count as a failure.
        await self._remove_finalizer(pod)
        await self._pod_control.delete(pod)

    async def _remove_finalizer(self, pod: Pod) -> None:
        """Remove the Job tracking finalizer of a pod, and keep all other finalizers."""
        meta = pod.metadata
        rest = [finalizer for finalizer in meta.finalizers or () if finalizer != JOB_TRACKING_FINALIZER]
        await self._pod_control.patch(meta, {"metadata": {"finalizers": rest or None}})

    async def _write_status(self, job: Job, plan: JobPlan) -> bool:
        """Write the status; return whether the Job has changed."""
        assert plan.status is not None  # noqa: S101 - the caller has looked
        meta = job.metadata
        changed = await self._job_control.patch(meta, plan.status, subresource="status")
        if self._jobs.get(meta.key) is None:
            return changed
        self._failures[meta.uid] = plan.failures
        for severity, reason, note in plan.events:
            self._recorder.record(EventRecord(Regarding.of(JOBS, meta), EventType(severity), reason, "Syncing", note))
        return changed

    async def _delete_after_ttl(self, job: Job) -> float | None:
        """Delete a finished Job when its TTL has expired; return when that will be."""
        finished, seconds = job.finished_condition, job.spec.ttl_seconds_after_finished
        if finished is None or seconds is None or job.metadata.deleting:
            return None
        since = parse_time(finished.last_transition_time) or self._clock.wall()
        left = (since + timedelta(seconds=seconds) - self._clock.wall()).total_seconds()
        if left > 0.0:
            return self._clock.now() + left
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(JOBS, job.metadata.key, uid=job.metadata.uid, propagation="Foreground")
        return None

    async def _sync_orphan_pod(self, key: Key) -> None:
        """Remove the finalizer of a pod that no controller owns any longer."""
        pod = self._pods.get(key)
        if pod is not None and has_tracking_finalizer(pod) and pod.metadata.controller is None:
            await self._remove_finalizer(pod)

    async def _release_orphaned_pods(self, key: Key) -> None:
        """Release the pods of a Job that is gone, even if a new Job has its name.

        The Job is read from the API server, because the watch of Jobs may lag behind the watch of pods.
        """
        uids = self._unknown_owners.pop(key)
        owned = (pod for uid in sorted(uids) for pod in self._pods.controlled_by(uid))
        orphans = [pod for pod in owned if JOB_TRACKING_FINALIZER in (pod.metadata.finalizers or ())]
        if not orphans:
            return
        try:
            job_uid = await self._job_uid(key)
            await slow_start_batch([pod for pod in orphans if _controller_uid(pod) != job_uid], self._remove_finalizer)
        except ApiError:
            self._unknown_owners.setdefault(key, set()).update(uids)
            raise

    async def _job_uid(self, key: Key) -> Uid | None:
        try:
            return (await self._client.get(JOBS, key, PartialObjectMetadata)).metadata.uid
        except NotFound:
            return None


def _controller_uid(pod: Pod) -> Uid | None:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else None


def _with_completion_index(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod spec whose containers get their completion index as an environment variable."""
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{JOB_COMPLETION_INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    result = dict(spec)
    for part in ("initContainers", "containers"):
        if part in spec:
            result[part] = [
                container
                if any(env.get("name") == variable["name"] for env in container.get("env") or ())
                else {**container, "env": [*(container.get("env") or ()), variable]}
                for container in spec[part]
            ]
    return result
