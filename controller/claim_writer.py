"""Executes plans: the only place that writes claims to the API server, and that updates the cache from each response.

Writes on a claim form a chain: the first carries the resourceVersion decided on, each next one the version just
returned, and every response enters the cache before the next decision. After a write whose response is lost, the claim
is read. Any failure ends the chain; nothing is repeated here: the claim is decided again with a newer view.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from controller.claim_patcher import ClaimPatcher
from controller.deallocation_check import DeallocationReader
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.parallel_requests import DeferredRequest, raise_failures, run_in_parallel
from controller.workload_informers import WorkloadInformers
from dra.engine.claims import live_reads, patches
from dra.engine.claims.actions import (
    Action,
    AddEntries,
    ClaimPlan,
    ClaimWrite,
    Deallocate,
    DeleteClaim,
    Lookup,
    LookUpNode,
    LookUpPlacements,
    LookUpPod,
    LookUpWorkload,
    PatchMetadata,
    ResyncPod,
    SetReservedFor,
    Ungate,
)
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.view import ClaimView
from dra.kube.backoff import Backoff
from dra.kube.client import WRITE_TIMEOUT, Client, Selection
from dra.kube.clock import Clock, rfc3339_micro
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import CLAIMS, NODES, PODS, RESERVATIONS, InvalidNameError
from dra.kube.store import ServerRestored, ServerRestoredError
from dra.model import annotations
from dra.model.claims import ResourceClaim, WatchedClaim
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from dra.model.references import ConsumerReference
from dra.model.resource_versions import is_older

_WRITE_LABELS: Final[dict[type[ClaimWrite], str]] = {
    SetReservedFor: "SetReservedFor",
    AddEntries: "Enter",
    Deallocate: "Deallocate",
    PatchMetadata: "Annotate",
}
"""Values of the label ``write``, which alerts and dashboards use: independent of class names."""

RESYNC_ATTEMPTS: Final = 3
"""Attempts to touch a pod; otherwise its kubelet re-reads the claim after a minute or more."""

RESYNC_RETRY_DELAY: Final = 0.5
"""Seconds before the second attempt."""

_log: Final = logging.getLogger(__name__)


class ClaimWriter:
    """A writer that applies plans through one client."""

    def __init__(  # noqa: PLR0913 - keyword-only: the parts it works with
        self,
        client: Client,
        *,
        cache: ClaimCache,
        clock: Clock,
        workloads: WorkloadInformers,
        metrics: ControllerMetrics,
        leadership: Leadership,
        placements: Callable[[LookUpPlacements], None] = lambda _: None,
    ) -> None:
        """Create a writer; ``placements`` takes questions whose answers enter the cache later."""
        self._client = client
        self._placements = placements
        self._cache = cache
        self._clock = clock
        self._workloads = workloads
        self._metrics = metrics
        self._leadership = leadership
        self._deallocation_check = DeallocationReader(client, cache=cache, clock=clock)
        self._patcher = ClaimPatcher(client)
        self._lookups_in_flight: set[tuple[Key, Lookup]] = set()
        """Lookups in flight, with the claim that needs the answer: a pod may be listed in several claims."""

    async def apply(
        self,
        plan: ClaimPlan,
        *,
        view: ClaimView | None = None,
        on_status_written: Callable[[], None] = lambda: None,
    ) -> None:
        """Execute a plan made for the view; raise ApiError, BoundMeanwhileError or PartialFailureError.

        ``on_status_written`` is called after the write of the status, also if a later write of the plan fails.
        """
        if view is not None and plan.claim_writes:
            try:
                await self._write_claim(plan.claim_writes, view, on_status_written)
            except ApiError:
                await self._resync_listed(plan, view)
                raise
        rest: list[DeferredRequest] = []
        for action in plan.actions:
            match action:
                case Ungate():
                    rest.append(partial(self._ungate, action))
                case ResyncPod():
                    rest.append(partial(self._resync_pod, action))
                case DeleteClaim():
                    rest.append(partial(self._delete_claim, action))
                case LookUpPlacements():
                    self._placements(action)
                case _:
                    rest.extend(self._lookups(action, view))
        raise_failures(await run_in_parallel(rest))

    def _lookups(self, action: Action, view: ClaimView | None) -> Iterator[DeferredRequest]:
        """Yield the request that answers a lookup, if the action is one."""
        match action:
            case LookUpPod() if view is not None:
                yield partial(self._look_up_pod, action, view.key)
            case LookUpNode():
                yield partial(self._look_up_node, action)
            case LookUpWorkload():
                yield partial(self._look_up_workload, action)
            case _:
                pass

    async def _resync_listed(self, plan: ClaimPlan, view: ClaimView) -> None:
        """Resync pods that were listed before a later write of the chain failed: the next plan will not resync them."""
        claim = self._cache.claim(view.key)
        listed = {entry.uid for entry in claim.entries} if claim is not None else set()
        resyncs = [a for a in plan.actions if isinstance(a, ResyncPod) and a.uid in listed]
        raise_failures(await run_in_parallel([partial(self._resync_pod, action) for action in resyncs]))

    async def _write_claim(
        self, writes: Iterable[ClaimWrite], view: ClaimView, on_status_written: Callable[[], None]
    ) -> None:
        claim = view.claim
        for write in writes:
            if isinstance(write, Deallocate):
                await self._deallocation_check.check(write)
            claim = await self._patch_claim(write, view, claim)
            if not isinstance(write, PatchMetadata):
                on_status_written()
            self._metrics.claim_writes.labels(_WRITE_LABELS[type(write)]).inc()
            _log.debug("%s", patches.describe_write(write, view.claim))
            if isinstance(write, SetReservedFor):
                self._metrics.observe_listed(view, write, now=self._clock.now())

    async def _patch_claim(self, write: ClaimWrite, view: ClaimView, before: ResourceClaim) -> ResourceClaim:
        """Patch the claim and return its new state."""
        try:
            claim = await self._send(write, view, before)
        except Conflict:
            self._metrics.conflicts.inc()
            # The informer may be far behind the other writer: the next decision must not conflict for the same reason.
            found = await self._read_claim(view)
            if found is not None:
                self._cache.observe_claim(found, now=self._clock.now())
            raise
        except NotFound as error:
            if error.is_about(view.key[1]):
                self._cache.forget_claim(view.key, view.claim.metadata.uid)
            raise
        except ApiError as error:
            found = await self._read_after_unknown_outcome(error, view)
            if found is None:
                raise
            done = patches.is_written(write, before=before, after=found)
            self._cache.observe_claim(found, now=self._clock.now(), ours=done)
            if not done:
                raise
            _log.debug("%s: done nevertheless: %s", error, patches.describe_write(write, before))
            return found
        self._cache.observe_claim(claim, now=self._clock.now(), ours=True)
        return claim

    async def _send(self, write: ClaimWrite, view: ClaimView, before: ResourceClaim) -> ResourceClaim:
        waits = not patches.only_removes_entries(write, view.listed)
        priority = RequestPriority.URGENT if waits else RequestPriority.BULK
        return await self._patcher.patch(write, before, priority=priority, write_timeout=self._write_timeout)

    async def _read_after_unknown_outcome(self, error: ApiError, view: ClaimView) -> ResourceClaim | None:
        """Return the claim after a write of unknown outcome; None if its state remains unknown.

        Pods that the write listed must be resynced, and the finalizer must be removed with the allocation: no later
        plan would contain these steps.
        """
        if not error.is_outcome_unknown:
            return None
        try:
            return await self._read_claim(view)
        except ApiError:
            return None

    async def _read_claim(self, view: ClaimView) -> ResourceClaim | None:
        """Return the claim as it is now, None if it is gone.

        A live read cannot be older than the cache; if it is, the server was restored from a backup, and all writes
        would fail for ever.
        """
        known = self._cache.claim(view.key)
        try:
            claim = await self._client.get(CLAIMS, view.key, WatchedClaim, timeout_seconds=WRITE_TIMEOUT)
        except NotFound as error:
            if not error.is_about(view.key[1]):
                raise
            self._cache.forget_claim(view.key, view.claim.metadata.uid)
            return None
        annotations.trim_annotations(claim.metadata)  # the claim is compared with the cached one
        before, version = known.metadata.resource_version if known is not None else "", claim.metadata.resource_version
        if is_older(version, before):
            raise ServerRestoredError(ServerRestored(CLAIMS.describe(view.key), version, before))
        return claim

    async def _ungate(self, action: Ungate) -> None:
        try:
            pod = await self._client.merge_patch(
                PODS,
                action.pod,
                patches.ungate_patch(action.other_gates),
                model=Pod,
                resource_version=action.resource_version,
                uid=action.uid,
                priority=RequestPriority.URGENT,
                timeout_seconds=self._write_timeout(),
            )
        except Conflict:
            for name in await self._reread_pod(action.pod, action.uid):
                self._cache.dirty.add((action.pod[0], name))
        except NotFound as error:
            if not error.is_about(action.pod[1]):
                raise
            self._cache.forget_pod(action.uid)
        except ApiError as error:
            if not error.is_outcome_unknown or not await self._is_ungated(action):
                raise
            self._metrics.ungated.inc()
        else:
            self._metrics.ungated.inc()
            self._cache.observe_pod(pod, now=self._clock.now())

    async def _is_ungated(self, action: Ungate) -> bool:
        """Return whether the scheduling gate is gone from the pod although the write's outcome was unknown."""
        try:
            await self._reread_pod(action.pod, action.uid)
        except ApiError:
            return False
        found = self._cache.consumer(action.uid)
        return found is None or not found.gated_by_us

    async def _reread_pod(self, key: Key, uid: Uid) -> tuple[str, ...]:
        """Read a pod live into the cache and return its claims.

        A gated pod changes once more right after its creation: kube-scheduler writes its condition.
        """
        try:
            pod = await self._client.get(PODS, key, Pod, priority=RequestPriority.URGENT, timeout_seconds=WRITE_TIMEOUT)
        except NotFound as error:
            if not error.is_about(key[1]):
                raise
            self._cache.forget_pod(uid)
            return ()
        live_reads.observe_pod(self._cache, uid, pod, now=self._clock.now())
        return claim_names(pod)

    async def _resync_pod(self, action: ResyncPod) -> None:
        """Touch the pod so that its kubelet re-reads the claim.

        Retried, unlike all other writes: no later plan contains this step.
        """
        stamp, backoff = rfc3339_micro(self._clock.wall()), Backoff(base=RESYNC_RETRY_DELAY)
        for left in reversed(range(RESYNC_ATTEMPTS)):
            try:
                await self._client.merge_patch(
                    PODS,
                    action.pod,
                    patches.resync_patch(stamp),
                    model=PartialObjectMetadata,
                    uid=action.uid,
                    priority=RequestPriority.URGENT,
                    timeout_seconds=self._write_timeout(),
                )
            except (Conflict, NotFound):
                return  # that pod is gone: no kubelet waits
            except ApiError:
                if not left:
                    raise
                await asyncio.sleep(backoff.next())
            else:
                self._metrics.resynced.inc()
                return

    async def _delete_claim(self, action: DeleteClaim) -> None:
        try:
            await self._client.delete(CLAIMS, action.claim, uid=action.uid, timeout_seconds=self._write_timeout())
        except Conflict:
            self._cache.forget_claim(action.claim, action.uid)
        except NotFound as error:
            if not error.is_about(action.claim[1]):
                raise
            self._cache.forget_claim(action.claim, action.uid)

    async def _look_up_pod(self, action: LookUpPod, claim: Key) -> None:
        question = (claim, action)
        if question in self._lookups_in_flight:
            return
        self._lookups_in_flight.add(question)
        try:
            pod = await self._client.get(PODS, action.pod, Pod)
        except InvalidNameError:  # the API server does not validate names in a claim's list
            self._cache.observe_pod_absent(claim, action.uid)
        except NotFound as error:
            if error.is_about(action.pod[1]):
                self._cache.observe_pod_vanished(claim, action.uid)
        else:
            live_reads.observe_listed_pod(self._cache, claim, action, pod, now=self._clock.now())
        finally:
            self._lookups_in_flight.discard(question)

    async def _look_up_node(self, action: LookUpNode) -> None:
        """Read a node live, by a list: this needs no further rights."""
        question = (action.claim, action)
        if question in self._lookups_in_flight:
            return
        self._lookups_in_flight.add(question)
        try:
            selection = Selection(fields=f"metadata.name={action.node}")
            pages = self._client.list_pages(NODES, Node, selection=selection)
            nodes = [node async for page in pages for node in page.items]
            live_reads.observe_nodes(self._cache, action, nodes, now=self._clock.now())
        finally:
            self._lookups_in_flight.discard(question)

    async def _look_up_workload(self, action: LookUpWorkload) -> None:
        question = (action.claim, action)
        if question in self._lookups_in_flight:
            return
        self._lookups_in_flight.add(question)
        try:
            if action.reference.is_reservation:
                await self._look_up_reservation(action.reference)
            else:
                await self._workloads.look_up(action.reference, namespace=action.claim[0])
        finally:
            self._lookups_in_flight.discard(question)

    async def _look_up_reservation(self, reference: ConsumerReference) -> None:
        """Check whether a reservation is certainly gone; its informer reports an existing one."""
        try:
            found = await self._client.get(RESERVATIONS, ("", reference.name), PartialObjectMetadata)
        except InvalidNameError:  # no object can have such a name
            self._cache.forget_reservation(reference.uid)
        except NotFound as error:
            if error.is_about(reference.name):  # otherwise the kind is not served at the moment
                self._cache.forget_reservation(reference.uid)
        else:
            if found.metadata.uid != reference.uid:
                self._cache.forget_reservation(reference.uid)

    def _write_timeout(self) -> float:
        """Return how long a write that begins now may take: it must end before the lease can expire."""
        return self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now())
