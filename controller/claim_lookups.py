"""Answers the questions of plans by live reads; the answers enter the cache of claims.

The reads have a loop of their own: right after a controller has taken over, thousands of claims may ask about pods that
ended meanwhile, and the rate limiter sends these reads one after another. No decision about another claim waits for it.

The answers that a claim waits for enter together: decided on after each, its list would be written several times.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.node_reads import NodeReads
from controller.parallel_requests import PartialFailureError, raise_failures, run_in_parallel
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

_Answer: TypeAlias = Callable[[], None]


def _nothing() -> None:
    """Enter an answer that says nothing, or that has entered already."""


class ClaimLookups(Reconciler[Key]):
    """The loop that reads what decisions about claims ask for."""

    settings = Settings(
        name="live reads for claim",
        workers=MAX_CONCURRENT_RECONCILES,
        retry=RETRY,
        retry_after={PartialFailureError: RETRY},
        batch_delay=0.0,
    )
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

    def request(self, questions: Iterable[Lookup], *, claim: Key) -> None:
        """Take all questions of a decision about a claim; the answers enter the cache of claims."""
        about_one_object: list[Question] = []
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

    async def reconcile(self, key: Key, now: Moment) -> Instant:
        """Read the answers to what a claim asks. Raises ApiError, PartialFailureError."""
        del now
        answers: list[tuple[Question, _Answer]] = []

        async def read(question: Question) -> None:
            answers.append((question, await self._read(question, key)))

        try:
            raise_failures(await run_in_parallel([partial(read, question) for question in self.cache.questions(key)]))
        finally:
            for question, enter in answers:
                enter()
                self.cache.remove(key, question)
            self._informers.notify()
        return NEVER

    async def _read(self, question: Question, claim: Key) -> _Answer:
        """Read what answers a question; return a function that enters the answer."""
        match question:
            case LookUpPod():
                return await self._read_pod(question, claim)
            case LookUpWorkload(reference=reference) if reference.is_reservation:
                return await self._read_reservation(reference)
            case LookUpWorkload(reference=reference):
                await self._workloads.look_up(reference, namespace=claim[0])
                return _nothing

    async def _read_pod(self, question: LookUpPod, claim: Key) -> _Answer:
        lookups = self._claims.lookups
        try:
            pod = await self._runtime.client.get(PODS, question.pod, Pod)
        except InvalidNameError:  # the API server does not validate names in a claim's list
            return partial(lookups.observe_pod_absent, claim, question.uid)
        except NotFound as error:
            is_gone = error.is_about(question.pod[1])
            return partial(lookups.observe_pod_vanished, claim, question.uid) if is_gone else _nothing
        now = self._runtime.instant()
        return partial(live_reads.observe_listed_pod, self._claims, claim, question, pod, now=now)

    async def _read_reservation(self, reference: ConsumerReference) -> _Answer:
        """Check whether a reservation is certainly gone; its informer reports an existing one."""
        try:
            reservation = await self._runtime.client.get(RESERVATIONS, ("", reference.name), PartialObjectMetadata)
            is_missing = reservation.metadata.uid != reference.uid
        except InvalidNameError:  # no object can have such a name
            is_missing = True
        except NotFound as error:
            is_missing = error.is_about(reference.name)  # otherwise the kind is not served at the moment
        return partial(self._claims.reservation_missing, reference.name, reference.uid) if is_missing else _nothing
