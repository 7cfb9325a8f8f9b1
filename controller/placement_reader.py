"""Live reads for the rule Unstick: where pods that wait for an allocated claim could run.

No informer covers the required objects (the pods of all nodes, all devices, device classes): a question comes up only
where pods have been unschedulable for a while. So questions are collected, and one read serves all of them. The pause
between two reads is at least `READ_PAUSE_MIN`, and several times as long as the last read took: many stuck claims cost
the API server no more than one does.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from dra.cel import memory_leaks
from dra.engine.allocator import ConsumedCapacityCollection, ResourceSliceTracker, UnsatisfiableError, allocator_release
from dra.engine.claims import live_reads
from dra.engine.claims.actions import LookUpPlacements
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.placements import ClusterSnapshot, PlacementSearch
from dra.kube.client import EVERYTHING, Selection
from dra.kube.codec import ApiObject, ListPage, codec_of
from dra.kube.errors import ApiError
from dra.kube.large_objects import LargeObjectLedger, report_nothing
from dra.kube.rate_limiter import RequestPriority
from dra.kube.resources import DEVICE_CLASSES, NODES, PODS, SLICES, Resource
from dra.kube.shared_informers import SharedInformers
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import Key, Uid
from dra.model.scheduling import FullSchedulerPod, SchedulerNode, SchedulerPod
from dra.model.slices import ResourceSlice

T = TypeVar("T", bound=ApiObject)

READ_PAUSE_MIN: Final = 5.0
"""Minimum number of seconds between two reads."""

PAUSE_FACTOR: Final = 4.0
"""Ratio of a pause to the duration of the read before it: reading takes a fifth of the time at most."""

TIME_SLICE: Final = 0.02
"""Seconds of work after which the rest of the process gets the same time: users write selectors that take long, and
there may be thousands of nodes."""

TIME_BUDGET: Final = 10.0
"""Maximum number of seconds of work for one question, and for a round: the next round answers the remaining
questions."""

LEAK_LIMIT: Final = 128 << 20
LEAK_LIMIT_PER_NAMESPACE: Final = 32 << 20
"""Maximum number of bytes that selectors may leak (`dra.cel.memory_leaks`), for all questions and for those of one
namespace, during the life of the process: 65,000 comparisons of quantities, and 16,000."""

_LEAK_MESSAGE: Final = (
    "selectors with quantities, versions or addresses have used up their memory limit; "
    "restart the controller to reset the limit"
)


NODES_READ_ONE_BY_ONE: Final = 16
"""Maximum number of nodes whose pods are read node by node; for more nodes, all pods of the cluster are read at
once."""

_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"

_log: Final = logging.getLogger(__name__)


class _BudgetExceededError(Exception):
    """A search that exceeds its limit of time or memory."""


class PlacementReader:
    """A reader that takes questions and stores the answers in the cache."""

    def __init__(self, runtime: Runtime[ControllerMetrics], informers: SharedInformers, *, cache: ClaimCache) -> None:
        self._runtime = runtime
        self._informers = informers
        self._cache = cache
        self._questions: dict[Key, LookUpPlacements] = {}
        self._work_seconds: dict[str, float] = {}
        """Namespace → seconds of work that its questions have taken; halved in each round."""

        self._leaked_bytes: dict[str, int] = {}
        """Namespace → bytes that selectors have leaked for its questions."""

        self._asked = asyncio.Event()

    def request(self, question: LookUpPlacements) -> None:
        """Add a question; it replaces an earlier one about the same claim."""
        self._questions[question.claim] = question
        self._asked.set()

    async def run(self) -> None:
        """Answer questions until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            # Namespaces with less recent work come first; the next round answers the remaining questions.
            questions = sorted(
                self._questions.values(), key=lambda question: self._work_seconds.get(question.claim[0], 0.0)
            )
            began = self._runtime.instant()
            try:
                await self._answer(questions)
            except ApiError as error:
                _log.warning("placements of waiting pods not read, retrying: %s", error)
                for question in questions:
                    self._remove_question(question)
                    self._observe_failure(question, fault=str(error))
            if self._questions:
                self._asked.set()
            self._informers.notify()
            await asyncio.sleep(max(READ_PAUSE_MIN, PAUSE_FACTOR * (self._runtime.instant() - began)))

    async def _answer(self, questions: Iterable[LookUpPlacements]) -> None:
        read_at = self._runtime.instant()
        snapshot = await self._read_snapshot()
        # Past work counts half with each read, so that a namespace is not set back for ever.
        self._work_seconds = {
            namespace: worked / 2 for namespace, worked in self._work_seconds.items() if worked > TIME_SLICE
        }
        waiting: dict[str, dict[Uid, FullSchedulerPod]] = {}
        searches: list[PlacementSearch] = []
        wanted: set[str] = set()
        left = TIME_BUDGET
        for question in questions:
            if left <= 0.0:
                break
            # Before the search: a question that is asked meanwhile is about a later state.
            self._remove_question(question)
            claim = self._cache.allocated_claim(question.claim)
            if claim is None:
                continue
            namespace = question.claim[0]
            if namespace not in waiting:
                waiting[namespace] = await self._unbound(namespace)
            pods = [pod for uid in question.pods if (pod := waiting[namespace].get(uid)) is not None]
            before = self._work_seconds.get(namespace, 0.0)
            try:
                search = await self._find(claim, pods, snapshot)
            except (UnsatisfiableError, _BudgetExceededError) as error:
                self._observe_failure(question, fault=str(error))
            except Exception as error:  # noqa: BLE001 - what one tenant has written must not end the answers for others
                _log.exception("claim %s/%s: internal error in the search for placements", *question.claim)
                self._observe_failure(question, fault=f"{type(error).__name__}, see the controller's log")
            else:
                wanted |= search.nodes()
                searches.append(search)
            left -= self._work_seconds.get(namespace, 0.0) - before
        await self._charge_pods(snapshot, wanted)
        for search in searches:
            self._cache.lookups.observe_placements(
                search.claim, search.placements(at=self._runtime.instant(), read_at=read_at)
            )

    async def _find(
        self, claim: ResourceClaim, pods: Iterable[FullSchedulerPod], snapshot: ClusterSnapshot
    ) -> PlacementSearch:
        """Run a search, and yield to the rest of the process as much time as it takes.

        Raises UnsatisfiableError, _BudgetExceededError.
        """
        namespace, work = claim.metadata.namespace, 0.0
        began, leaked = self._runtime.instant(), memory_leaks.leaked_bytes()

        async def pause() -> None:
            nonlocal work, began
            piece = self._runtime.instant() - began
            work += piece
            self._work_seconds[namespace] = self._work_seconds.get(namespace, 0.0) + piece
            await asyncio.sleep(piece)
            began = self._runtime.instant()

        try:
            search = PlacementSearch(claim, pods, snapshot=snapshot, claim_of=self._cache.claim)
            if search.loses and self._exceeds_leak_limit(namespace):
                raise _BudgetExceededError(_LEAK_MESSAGE)
            with contextlib.closing(search.steps()) as steps:
                for _ in steps:
                    if memory_leaks.leaked_bytes() > leaked:
                        self._leaked_bytes[namespace] = (
                            self._leaked_bytes.get(namespace, 0) + memory_leaks.leaked_bytes() - leaked
                        )
                        leaked = memory_leaks.leaked_bytes()
                        if self._exceeds_leak_limit(namespace):
                            raise _BudgetExceededError(_LEAK_MESSAGE)
                    if self._runtime.instant() - began < TIME_SLICE:
                        continue
                    await pause()
                    if work >= TIME_BUDGET:
                        raise _BudgetExceededError(
                            f"the search for devices and nodes took more than {TIME_BUDGET:.0f} s"
                        )
        finally:
            await pause()
        return search

    def _exceeds_leak_limit(self, namespace: str) -> bool:
        return (
            self._leaked_bytes.get(namespace, 0) > LEAK_LIMIT_PER_NAMESPACE or memory_leaks.leaked_bytes() > LEAK_LIMIT
        )

    def _remove_question(self, question: LookUpPlacements) -> None:
        """Remove a question, unless a newer one about the same claim has replaced it."""
        if self._questions.get(question.claim) is question:
            del self._questions[question.claim]

    def _observe_failure(self, question: LookUpPlacements, *, fault: str) -> None:
        live_reads.observe_unknown_placements(self._cache, question, fault=fault, now=self._runtime.instant())

    async def _read_snapshot(self) -> ClusterSnapshot:
        """Read nodes, devices and classes; allocations of devices come from the cache."""
        snapshot = ClusterSnapshot(
            node_infos={},
            inventory=ResourceSliceTracker(allocator_release(await self._runtime.client.git_version())),
            classes={},
            ledger=self._cache.ledger,
            shares=self._shares(),
            taints=self._cache.taints,
        )
        async for nodes in self._pages(NODES, SchedulerNode):
            snapshot.node_names.update(identity.name for identity in nodes.unreadable)
            for node in nodes.items:
                snapshot.observe_node(node)
        for rule in self._cache.taints.rules:
            snapshot.inventory.observe_rule(rule)
        async for slices in self._pages(SLICES, ResourceSlice):
            for resource_slice in slices.items:
                snapshot.inventory.observe(resource_slice)
        async for classes in self._pages(DEVICE_CLASSES, DeviceClass):
            snapshot.classes |= {device_class.metadata.name: device_class for device_class in classes.items}
        return snapshot

    def _pages(
        self, resource: Resource, model: type[T], selection: Selection = EVERYTHING
    ) -> AsyncIterator[ListPage[T]]:
        return self._runtime.client.list_pages(resource, model, selection=selection, priority=RequestPriority.BULK)

    def _shares(self) -> ConsumedCapacityCollection:
        shares = ConsumedCapacityCollection()
        for claim in self._cache.claims():
            shares.observe_allocation(claim.metadata.uid, claim.status.allocation)
        return shares

    async def _unbound(self, namespace: str) -> dict[Uid, FullSchedulerPod]:
        selection = Selection(namespace=namespace, fields=f"spec.nodeName=,{_UNFINISHED}")
        unbound: dict[Uid, FullSchedulerPod] = {}
        ledger, reduce = LargeObjectLedger(PODS, report_nothing), codec_of(PODS, FullSchedulerPod).reduce
        async for page in self._pages(PODS, FullSchedulerPod, selection):
            pods, _ = ledger.admit_page(page, reduce=reduce)
            unbound |= {pod.metadata.uid: pod for pod in pods}
        return unbound

    async def _charge_pods(self, snapshot: ClusterSnapshot, names: set[str]) -> None:
        """Add the pods of the named nodes to the snapshot, and the capacity that Reservations hold there."""
        selections = (
            [EVERYTHING]
            if len(names) > NODES_READ_ONE_BY_ONE
            else [Selection(fields=f"spec.nodeName={n}") for n in names]
        )
        for selection in selections:
            async for page in self._pages(PODS, SchedulerPod, selection):
                for pod in page.items:
                    snapshot.observe_pod(pod)
        for reservation in self._cache.holders.available():
            if reservation.node in names:
                snapshot.observe_reservation(reservation)
