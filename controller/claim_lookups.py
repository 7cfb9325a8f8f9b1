"""Answers the questions of plans by live reads; the answers enter the cache of claims."""

from controller.metrics import ControllerMetrics
from controller.node_reads import NodeReads
from controller.placement_reader import PlacementReader
from controller.runtime import Runtime
from dra.engine.claims import live_reads
from dra.engine.claims.actions import Lookup, LookUpNode, LookUpPlacements, LookUpPod, LookUpWorkload
from dra.engine.claims.claim_cache import ClaimCache
from dra.kube.errors import NotFound
from dra.kube.resources import PODS, RESERVATIONS, InvalidNameError
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from dra.requests.workload_reader import WorkloadReader


class ClaimLookups:
    """A reader of what decisions about claims ask for."""

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        *,
        cache: ClaimCache,
        workloads: WorkloadReader,
        placements: PlacementReader,
        nodes: NodeReads,
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._workloads = workloads
        self._placements = placements
        self._nodes = nodes
        self._in_flight: set[tuple[Key, Lookup]] = set()
        """Questions in flight, with the claim that needs the answer: a pod may be listed in several claims."""

    async def answer(self, question: Lookup, *, claim: Key) -> None:
        """Read the answer, unless that read is in flight; raise ApiError. Nodes and placements are read later."""
        if (claim, question) in self._in_flight:
            return
        self._in_flight.add((claim, question))
        try:
            match question:
                case LookUpPod():
                    await self._look_up_pod(question, claim)
                case LookUpNode():
                    self._nodes.request(question)
                case LookUpWorkload(reference=reference) if reference.is_reservation:
                    await self._look_up_reservation(reference)
                case LookUpWorkload(reference=reference):
                    await self._workloads.look_up(reference, namespace=claim[0])
                case LookUpPlacements():
                    self._placements.request(question)
        finally:
            self._in_flight.discard((claim, question))

    async def _look_up_pod(self, question: LookUpPod, claim: Key) -> None:
        try:
            pod = await self._runtime.client.get(PODS, question.pod, Pod)
        except InvalidNameError:  # the API server does not validate names in a claim's list
            self._cache.lookups.observe_pod_absent(claim, question.uid)
        except NotFound as error:
            if error.is_about(question.pod[1]):
                self._cache.lookups.observe_pod_vanished(claim, question.uid)
        else:
            live_reads.observe_listed_pod(self._cache, claim, question, pod, now=self._runtime.instant())

    async def _look_up_reservation(self, reference: ConsumerReference) -> None:
        """Check whether a reservation is certainly gone; its informer reports an existing one."""
        try:
            reservation = await self._runtime.client.get(RESERVATIONS, ("", reference.name), PartialObjectMetadata)
        except InvalidNameError:  # no object can have such a name
            self._cache.forget_reservation(reference.uid)
        except NotFound as error:
            if error.is_about(reference.name):  # otherwise the kind is not served at the moment
                self._cache.forget_reservation(reference.uid)
        else:
            if reservation.metadata.uid != reference.uid:
                self._cache.forget_reservation(reference.uid)
