"""Answers the questions of plans by live reads; the answers enter the cache of claims.

The reads have a loop of their own: right after a controller has taken over, thousands of claims may ask about pods that
ended meanwhile, and the rate limiter sends these reads one after another. No decision about another claim waits for it.
"""

from collections.abc import Iterable
from typing import Final

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.node_reads import NodeReads
from controller.placement_reader import PlacementReader
from controller.reconciler import Reconciler, Settings
from controller.runtime import Runtime
from dra.engine.claims import live_reads
from dra.engine.claims.actions import Lookup, LookUpNode, LookUpPlacements, LookUpPod, LookUpWorkload
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.open_questions import OpenQuestions, Question
from dra.engine.instants import NEVER, Instant, Moment
from dra.kube.errors import NotFound
from dra.kube.resources import PODS, RESERVATIONS, InvalidNameError
from dra.kube.workqueue import MAX_CONCURRENT_RECONCILES
from dra.model.meta import Key, PartialObjectMetadata
from dra.model.pods import Pod
from dra.model.references import ConsumerReference
from dra.requests.workload_reader import WorkloadReader

RETRY: Final = (0.2, 10.0)
"""Seconds, minimum and maximum, until a read that failed is repeated: devices may wait for its answer."""


class ClaimLookups(Reconciler[Question]):
    """The loop that reads what decisions about claims ask for."""

    settings = Settings(name="live read for claim", workers=MAX_CONCURRENT_RECONCILES, retry=RETRY, batch_delay=0.0)
    cache: OpenQuestions
    _runtime: Runtime[ControllerMetrics]

    def __init__(
        self,
        runtime: Runtime[ControllerMetrics],
        informers: ControllerInformers,
        *,
        claims: ClaimCache,
        workloads: WorkloadReader,
        placements: PlacementReader,
        nodes: NodeReads,
    ) -> None:
        self.cache = OpenQuestions()
        super().__init__(runtime, informers, self.cache)
        self._informers = informers
        self._claims = claims
        self._workloads = workloads
        self._placements = placements
        self._nodes = nodes

    def subject(self, key: Question) -> str:
        """Return the claim that asks."""
        return f"{self.settings.name} {'/'.join(key[0])}"

    def request(self, questions: Iterable[Lookup], *, claim: Key) -> None:
        """Take all questions of a decision about a claim; the answers enter the cache of claims."""
        about_one_object: list[LookUpPod | LookUpWorkload] = []
        for question in questions:
            match question:
                case LookUpPod() | LookUpWorkload():
                    about_one_object.append(question)
                case LookUpNode():
                    self._nodes.request(question)
                case LookUpPlacements():
                    self._placements.request(question)
        self.cache.set_questions(claim, about_one_object)
        if self.cache.dirty:
            self.enqueue_dirty()

    async def reconcile(self, key: Question, now: Moment) -> Instant:
        """Read the answer to one question, if the claim still asks it. Raises ApiError."""
        del now
        if key in self.cache:
            claim, question = key
            await self._answer(question, claim)
            self.cache.remove(key)
            self._informers.notify()
        return NEVER

    async def _answer(self, question: LookUpPod | LookUpWorkload, claim: Key) -> None:
        match question:
            case LookUpPod():
                await self._look_up_pod(question, claim)
            case LookUpWorkload(reference=reference) if reference.is_reservation:
                await self._look_up_reservation(reference)
            case LookUpWorkload(reference=reference):
                await self._workloads.look_up(reference, namespace=claim[0])

    async def _look_up_pod(self, question: LookUpPod, claim: Key) -> None:
        try:
            pod = await self._runtime.client.get(PODS, question.pod, Pod)
        except InvalidNameError:  # the API server does not validate names in a claim's list
            self._claims.lookups.observe_pod_absent(claim, question.uid)
        except NotFound as error:
            if error.is_about(question.pod[1]):
                self._claims.lookups.observe_pod_vanished(claim, question.uid)
        else:
            live_reads.observe_listed_pod(self._claims, claim, question, pod, now=self._runtime.instant())

    async def _look_up_reservation(self, reference: ConsumerReference) -> None:
        """Check whether a reservation is certainly gone; its informer reports an existing one."""
        try:
            reservation = await self._runtime.client.get(RESERVATIONS, ("", reference.name), PartialObjectMetadata)
            is_missing = reservation.metadata.uid != reference.uid
        except InvalidNameError:  # no object can have such a name
            is_missing = True
        except NotFound as error:
            is_missing = error.is_about(reference.name)  # otherwise the kind is not served at the moment
        if is_missing:
            self._claims.reservation_missing(reference.name, reference.uid)
