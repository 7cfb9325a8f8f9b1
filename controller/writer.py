"""Carries out plans: the only place that writes to the API server, and what each outcome teaches the world.

Writes on a claim are a chain: the first carries the resourceVersion decided on, each next the one just returned, and
every answer enters the world before the next decision. Whatever fails ends the chain; nothing is repeated here, the
claim is decided again with a newer view.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Final

from controller.confirmation import Confirmation
from controller.leadership import Leadership
from controller.metrics import Metrics
from controller.workloads import Workloads
from dra.engine import patches
from dra.engine.actions import (
    ClaimWrite,
    Deallocate,
    DeleteClaim,
    Kick,
    LookUpPod,
    LookUpWorkload,
    Plan,
    SetReservedFor,
    Ungate,
)
from dra.engine.claims.view import ClaimView
from dra.engine.consumers import Stage, stage_of
from dra.engine.world import World
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock, micro_time
from dra.kube.errors import ApiError, Conflict, NotFound
from dra.kube.limits import Priority
from dra.kube.resources import CLAIMS, PODS, InvalidNameError
from dra.kube.store import Rewound, RewoundError, earlier
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObject, Uid
from dra.model.pods import Pod, claim_names

PARALLEL: Final = 32
"""Requests of one plan that are under way at a time: a window of 240 pods is ungated in eight rounds."""


_log: Final = logging.getLogger(__name__)


class Writer:
    """Applies plans through one client."""

    def __init__(
        self,
        client: Client,
        *,
        world: World,
        clock: Clock,
        workloads: Workloads,
        metrics: Metrics,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._world = world
        self._clock = clock
        self._workloads = workloads
        self._metrics = metrics
        self._leadership = leadership
        self._confirmation = Confirmation(client, world=world, clock=clock)
        self._asking: set[tuple[Key, LookUpPod | LookUpWorkload]] = set()
        """Questions that are under way, with the claim that wants the answer: a pod may be listed in several."""

    async def apply(self, plan: Plan, *, view: ClaimView | None = None) -> None:
        """Carry out a plan made for the view; raises ApiError or BoundMeanwhileError, the first of several."""
        if view is not None and plan.claim_writes:
            try:
                await self._write_claim(plan.claim_writes, view)
            except ApiError:
                await self._kick_listed(plan, view)
                raise
        rest: list[Awaitable[None]] = []
        for action in plan.actions:
            match action:
                case Ungate():
                    rest.append(self._ungate(action))
                case Kick():
                    rest.append(self._kick(action))
                case DeleteClaim():
                    rest.append(self._delete_claim(action))
                case LookUpPod() if view is not None:
                    rest.append(self._look_up_pod(action, view.key))
                case LookUpWorkload():
                    rest.append(self._look_up_workload(action))
                case _:
                    pass
        await together(rest)

    async def _kick_listed(self, plan: Plan, view: ClaimView) -> None:
        """The chain broke behind the list: who is listed now will not be kicked by the next plan."""
        claim = self._world.claim(view.key)
        listed = {entry.uid for entry in claim.entries} if claim is not None else set()
        await together([self._kick(a) for a in plan.actions if isinstance(a, Kick) and a.uid in listed])

    async def _write_claim(self, writes: Iterable[ClaimWrite], view: ClaimView) -> None:
        version = view.claim.metadata.resource_version
        for write in writes:
            if isinstance(write, Deallocate):
                await self._confirmation.ask(write)
            version = await self._patch_claim(write, view, version)

    async def _patch_claim(self, write: ClaimWrite, view: ClaimView, version: str) -> str:
        try:
            claim = await self._client.merge_patch(
                CLAIMS,
                view.key,
                patches.body(write),
                model=ResourceClaim,
                subresource=patches.subresource(write),
                resource_version=version,
                uid=view.claim.metadata.uid,
                priority=Priority.URGENT if not _only_tidies(write, view) else Priority.BULK,
                within=self._within(),
            )
        except Conflict:
            self._metrics.conflicts.inc()
            await self._reread_claim(view)
            raise
        except NotFound:
            self._world.forget_claim(view.key, view.claim.metadata.uid)
            raise
        self._metrics.claim_writes.labels(type(write).__name__).inc()
        self._world.observe_claim(claim, now=self._clock.now(), ours=True)
        _log.debug("%s", patches.summary(write, view.claim))
        if isinstance(write, SetReservedFor):
            self._metrics.observe_listed(view, write, now=self._clock.now())
        return claim.metadata.resource_version

    async def _reread_claim(self, view: ClaimView) -> None:
        """The watch may be far behind whoever was faster: the next decision should not fail on the same news.

        A live read can be no older than what is known before it; else the server was restored from a backup, and all
        our writes would fail for ever.
        """
        known = self._world.claim(view.key)
        try:
            claim = await self._client.get(CLAIMS, view.key, ResourceClaim)
        except NotFound:
            self._world.forget_claim(view.key, view.claim.metadata.uid)
            return
        before, version = known.metadata.resource_version if known is not None else "", claim.metadata.resource_version
        if earlier(version, before):
            raise RewoundError(Rewound(CLAIMS.what(view.key), version, before))
        self._world.observe_claim(claim, now=self._clock.now())

    async def _ungate(self, action: Ungate) -> None:
        try:
            pod = await self._client.merge_patch(
                PODS,
                action.pod,
                patches.ungating(),
                model=Pod,
                resource_version=action.resource_version,
                uid=action.uid,
                priority=Priority.URGENT,
                within=self._within(),
            )
        except Conflict:
            await self._reread_pod(action.pod, action.uid)
        except NotFound:
            self._world.forget_pod(action.uid)
        else:
            self._metrics.ungated.inc()
            self._world.observe_pod(pod, now=self._clock.now())

    async def _reread_pod(self, key: Key, uid: Uid) -> None:
        """A gated pod changes once more right after its creation: the scheduler writes its condition."""
        try:
            pod = await self._client.get(PODS, key, Pod, priority=Priority.URGENT)
        except NotFound:
            self._world.forget_pod(uid)
            return
        if pod.metadata.uid != uid:
            self._world.forget_pod(uid)
        self._world.observe_pod(pod, now=self._clock.now())
        self._world.dirty.update((key[0], name) for name in claim_names(pod))

    async def _kick(self, action: Kick) -> None:
        stamp = micro_time(self._clock.wall())
        try:
            await self._client.merge_patch(
                PODS,
                action.pod,
                patches.kick(stamp),
                model=PartialObject,
                uid=action.uid,
                priority=Priority.URGENT,
                within=self._within(),
            )
        except (Conflict, NotFound):
            return  # that pod is gone: nobody is left to look again
        self._metrics.kicked.inc()

    async def _delete_claim(self, action: DeleteClaim) -> None:
        try:
            await self._client.delete(CLAIMS, action.claim, uid=action.uid, within=self._within())
        except (Conflict, NotFound):
            self._world.forget_claim(action.claim, action.uid)

    async def _look_up_pod(self, action: LookUpPod, claim: Key) -> None:
        question = (claim, action)
        if question in self._asking:
            return
        self._asking.add(question)
        try:
            pod = await self._client.get(PODS, action.pod, Pod)
        except (NotFound, InvalidNameError):  # the API server checks no names in a claim's list
            self._world.pod_absent(claim, action.uid)
        else:
            if pod.metadata.uid != action.uid or stage_of(pod, started=False) is Stage.FINISHED:
                self._world.pod_absent(claim, action.uid)
            else:
                self._world.pod_present(claim, action.uid, now=self._clock.now())
        finally:
            self._asking.discard(question)

    async def _look_up_workload(self, action: LookUpWorkload) -> None:
        question = (action.claim, action)
        if question in self._asking:
            return
        self._asking.add(question)
        try:
            await self._workloads.look_up(action.reference, namespace=action.claim[0])
        finally:
            self._asking.discard(question)

    def _within(self) -> float:
        """Return how long a write that begins now may take: it must be over before our lease can be."""
        return self._leadership.within(WRITE_TIMEOUT, now=self._clock.now())


def _only_tidies(write: ClaimWrite, view: ClaimView) -> bool:
    """Whether nobody waits for the write: it takes entries away and adds none."""
    return isinstance(write, SetReservedFor) and {e.uid for e in write.entries} <= view.listed


async def together(requests: list[Awaitable[None]]) -> None:
    """Run requests of one plan, a few at a time; all of them, even if some fail, then raise the first failure."""
    if not requests:
        return
    slots = asyncio.Semaphore(PARALLEL)

    async def one(request: Awaitable[None]) -> None:
        async with slots:
            await request

    outcomes = await asyncio.gather(*(one(r) for r in requests), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
