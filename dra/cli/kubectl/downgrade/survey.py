"""Reads a cluster once and assesses its claims; no object is kept, so that the next survey sees the state of then.

A workload is read only where its state decides: where no pod is left that the list could name.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from dra.api.configuration import ControllerConfiguration
from dra.cel.configured_rules import compiled_rules
from dra.cel.object_rules import WorkloadRules
from dra.cli.kubectl.connection import Connection
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.consumers import SCHEDULING_GATE, Stage, stage_of
from dra.engine.claims.downgrade import DowngradeAssessment, DowngradeState, assess, lacks_workload_entry
from dra.engine.claims.kept_nodes import annotation_changes
from dra.engine.claims.view import ClaimView, EntryKind
from dra.engine.claims.workload_entry import resolve_reference
from dra.kube.client import Selection
from dra.kube.codec import ListPage
from dra.kube.errors import ApiError, Forbidden, NotFound
from dra.kube.resources import CLAIMS, NODES, PODS, InvalidNameError
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, Uid
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names
from dra.model.references import ConsumerReference, GroupResource
from dra.requests.workload_reader import WorkloadReader

T = TypeVar("T")

OWN_PREFIX: Final = "reserve.dra/"
"""Prefix of our annotations, labels and finalizers."""

PARALLEL_LOOKUPS: Final = 16
"""Maximum number of requests for single objects under way at a time."""


class UnreadableObjectError(Exception):
    """An object cannot be read, and a claim that depends on unknown facts cannot be converted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedPod:
    """A pod behind our scheduling gate."""

    key: Key
    uid: Uid
    resource_version: str
    gates: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class DowngradeSurvey:
    """The claims and pods of a cluster, as one survey has found them."""

    assessments: list[DowngradeAssessment] = field(default_factory=list)
    claims_without_entry: list[Key] = field(default_factory=list)
    """Claims in use by pods whose workload has no entry in the list."""

    gated: dict[Uid, GatedPod] = field(default_factory=dict)
    annotated_claims: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """Claims with annotations of ours → these annotations."""

    annotated_pods: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    annotated_nodes: tuple[Node, ...] = ()
    """Nodes that the controller keeps from autoscalers by annotations of its own."""

    with_finalizers: set[Key] = field(default_factory=set)
    """Claims and pods with finalizers of ours; dra-reserve sets none, so there are none unless a user added them."""

    @property
    def unready_claims(self) -> list[DowngradeAssessment]:
        """The claims that are not ready for stock Kubernetes, in order."""
        unready = (assessment for assessment in self.assessments if assessment.state is not DowngradeState.READY)
        return sorted(unready, key=lambda assessment: assessment.claim)


class SurveyReader:
    """Reads claims, pods and workloads of a cluster through one client."""

    def __init__(self, connection: Connection, *, given_up: frozenset[Key] = frozenset()) -> None:
        self._client = connection.client
        self._clock = connection.clock
        self._given_up = given_up
        self._rules: dict[GroupResource, WorkloadRules] = dict(compiled_rules(ControllerConfiguration()))
        self._nodes: list[Node] = []

    async def survey(self, namespace: str | None) -> DowngradeSurvey:
        """Survey all claims, or those of one namespace; raise ApiError, UnreadableObjectError."""
        survey, claim_cache, keys = DowngradeSurvey(), ClaimCache(), dict[Key, None]()
        now = self._clock.now()
        self._nodes = [node async for page in self._client.list_pages(NODES, Node) for node in _readable_items(page)]
        for node in self._nodes:
            claim_cache.observe_node(node, now=now)
        survey.annotated_nodes = tuple(n for n in self._nodes if annotation_changes(n.metadata.annotations, kept=False))
        selection = Selection(namespace=namespace)
        async for claims in self._client.list_pages(CLAIMS, ResourceClaim, selection=selection):
            for claim in _readable_items(claims):
                claim_cache.observe_claim(claim, now=now)
                keys[claim.metadata.key] = None
                _record_marks(survey.annotated_claims, survey.with_finalizers, claim)
        async for pods in self._client.list_pages(PODS, Pod, selection=selection):
            for pod in _readable_items(pods):
                if claim_names(pod) or SCHEDULING_GATE in pod.gates:
                    claim_cache.observe_pod(pod, now=now)
                _record_marks(survey.annotated_pods, survey.with_finalizers, pod)
                if SCHEDULING_GATE in pod.gates and not pod.terminal:
                    survey.gated[pod.metadata.uid] = _gated_pod(pod)
        views = await self._resolved_views(claim_cache, keys)
        survey.claims_without_entry = sorted(view.key for view in views if lacks_workload_entry(view))
        survey.assessments = [assess(view, given_up=view.key in self._given_up) for view in views]
        return survey

    async def read_view(self, key: Key) -> ClaimView | None:
        """Return the live view of one claim; read the claim first, then its pods.

        In this order, a pod that is bound in between changes the version of the claim: a scheduler binds a pod to an
        allocated claim only after the pod is in the claim's list.
        """
        claim_cache, now = ClaimCache(), self._clock.now()
        for node in self._nodes:
            claim_cache.observe_node(node, now=now)
        try:
            claim = await self._client.get(CLAIMS, key, ResourceClaim)
        except NotFound:
            return None
        claim_cache.observe_claim(claim, now=now)
        async for pods in self._client.list_pages(PODS, Pod, selection=Selection(namespace=key[0])):
            for pod in _readable_items(pods):
                if key[1] in claim_names(pod):
                    claim_cache.observe_pod(pod, now=now)
        views = await self._resolved_views(claim_cache, [key])
        return views[0] if views else None

    async def _resolved_views(self, claim_cache: ClaimCache, keys: Iterable[Key]) -> list[ClaimView]:
        """Return the views of claims, after reading the pods and workloads that the views leave open."""
        now = self._clock.now()
        wanted: dict[Key, set[Uid]] = defaultdict(set)
        workloads: dict[tuple[str, ConsumerReference], None] = {}
        for key in keys:
            view = claim_cache.view(key, now=now)
            if view is None or (view.allocation is None and not view.entries):
                continue
            wanted[key] = {e.reference.uid for e in view.entries_of(EntryKind.UNKNOWN)}
            if view.reservation is not None and view.is_reserved and not view.unfinished:
                workloads[(key[0], resolve_reference(view, view.reservation))] = None
            for entry in view.entries_of(EntryKind.FORMER):
                workloads[(key[0], entry.reference)] = None
        slots = asyncio.Semaphore(PARALLEL_LOOKUPS)
        asked = WorkloadReader(self._client, cache=claim_cache, rules=self._rules, clock=self._clock)
        await asyncio.gather(
            *(self._look_up_pods(claim_cache, key, uids, slots) for key, uids in wanted.items() if uids),
            *(_look_up_workload(asked, reference, namespace, slots) for namespace, reference in workloads),
        )
        return [view for key in keys if (view := claim_cache.view(key, now=now)) is not None]

    async def _look_up_pods(self, claim_cache: ClaimCache, key: Key, uids: set[Uid], slots: asyncio.Semaphore) -> None:
        """Read the listed pods that the survey has not seen.

        A finished pod keeps nothing. For a pod that is gone, no object shows how it ended: its entry stays, and the
        stock resourceclaim-controller removes the entry.
        """
        view = claim_cache.view(key, now=self._clock.now())
        for entry in view.entries if view is not None else ():
            if entry.reference.uid not in uids:
                continue
            async with slots:
                try:
                    pod = await self._client.get(PODS, (key[0], entry.reference.name), Pod)
                except (NotFound, InvalidNameError):
                    claim_cache.lookups.observe_pod_vanished(key, entry.reference.uid)
                    continue
            if pod.metadata.uid != entry.reference.uid:
                claim_cache.lookups.observe_pod_vanished(key, entry.reference.uid)
            elif stage_of(pod, started=False) is Stage.FINISHED:
                claim_cache.lookups.observe_pod_absent(key, entry.reference.uid)
            elif key[1] in claim_names(pod):
                claim_cache.observe_pod(pod, now=self._clock.now())
            else:
                claim_cache.lookups.observe_pod_present(key, entry.reference.uid, now=self._clock.now())


async def _look_up_workload(
    workloads: WorkloadReader, reference: ConsumerReference, namespace: str, slots: asyncio.Semaphore
) -> None:
    async with slots:
        try:
            await workloads.look_up(reference, namespace=namespace)
        except Forbidden:
            return  # the workload stays unknown, and its claim unchanged
        except ApiError as error:
            if error.is_outcome_unknown:
                return
            raise


def _readable_items(page: ListPage[T]) -> list[T]:
    """Return the items of a page; raise UnreadableObjectError if an object of the page could not be read."""
    if page.unreadable:
        raise UnreadableObjectError(f"{page.unreadable[0]}: cannot be read, and nothing is converted without it")
    return page.items


def _record_marks(noted: dict[Key, tuple[str, ...]], finalized: set[Key], marked: ResourceClaim | Pod) -> None:
    meta = marked.metadata
    ours = tuple(key for key in meta.annotations or () if key.startswith(OWN_PREFIX))
    if ours:
        noted[meta.key] = ours
    if any(finalizer.startswith(OWN_PREFIX) for finalizer in meta.finalizers or ()):
        finalized.add(meta.key)


def _gated_pod(pod: Pod) -> GatedPod:
    meta = pod.metadata
    return GatedPod(key=meta.key, uid=meta.uid, resource_version=meta.resource_version, gates=pod.gates)
