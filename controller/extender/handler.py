"""The calls of kube-scheduler: JSON in, JSON out; of HTTP only the status. Within one process: typed.

A second entry in the scheduler's file may ask for the load of nodes (`load_aware`). A call that fails says so in its
answer, with 200, as the protocol requires: kube-scheduler retries the pod. Before the caches are synced the answer is
503.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from controller.extender.binder import Binder
from controller.extender.events import ExtenderEvents
from controller.extender.informers import ExtenderInformers
from controller.extender.load_aware import LoadAwareVerbs
from controller.extender.metrics import ExtenderMetrics
from controller.extender.writer import UnknownOutcomeError
from controller.runtime import Runtime
from dra.api.extender_configuration import ExtenderConfiguration
from dra.engine.scheduling import verbs
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.status_updates import WriteRefusedError
from dra.model import extender_protocol
from dra.model.extender_protocol import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    MalformedRequestError,
)
from dra.model.scheduling import SchedulerPod

VerbResponse: TypeAlias = tuple[int, bytes]
"""HTTP status and body of a response."""

_log: Final = logging.getLogger(__name__)


class ExtenderHandler:
    """Dispatches extender verbs to their handlers."""

    def __init__(
        self,
        runtime: Runtime[ExtenderMetrics],
        informers: ExtenderInformers,
        *,
        cache: SchedulerCache,
        binder: Binder,
        configuration: ExtenderConfiguration,
    ) -> None:
        self._runtime = runtime
        self._informers = informers
        self._cache = cache
        self._binder = binder
        self._configuration = configuration
        self._events = ExtenderEvents(runtime.recorder)
        self._verbs: dict[str, Callable[[bytes], Awaitable[object]]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            "bind": self._bind,
        }
        if configuration.load_aware is not None:
            verbs_by_load = LoadAwareVerbs(runtime, informers, cache=cache, configuration=configuration.load_aware)
            self._verbs |= {"load/filter": verbs_by_load.filter, "load/prioritize": verbs_by_load.prioritize}

    @property
    def verbs(self) -> Iterable[str]:
        """The calls that are answered, as they follow the address in a URL."""
        return self._verbs

    async def handle(self, verb: str, body: bytes) -> VerbResponse:
        """Return the response to a call of one of `verbs`."""
        began = self._runtime.instant()
        try:
            if reasons := self._informers.not_ready_reasons():
                return 503, "; ".join(reasons).encode()
            return 200, msgspec.json.encode(await self._verbs[verb](body))
        except MalformedRequestError as error:
            return 400, str(error).encode()
        finally:
            self._runtime.metrics.calls.labels(verb).observe(self._runtime.instant() - began)

    def filter(self, pod: SchedulerPod, names: Sequence[str]) -> ExtenderFilterResult:
        """Return the nodes on which a pod can run now; a pod with rejected nodes is requeued when capacity is freed."""
        decision = verbs.filter_pod(self._cache, pod, names, now=self._runtime.instant())
        if decision.event_text:
            self._events.pod_unschedulable(pod, decision.event_text)
        return decision.result

    def prioritize(self, pod: SchedulerPod, names: Sequence[str]) -> list[extender_protocol.HostPriority]:
        """Return the scores of nodes for a pod."""
        return verbs.prioritize_nodes(
            self._cache, pod, names, spread_reservations=self._configuration.spread_reservations
        )

    async def bind(self, call: extender_protocol.ExtenderBindingArgs) -> None:
        """Bind a pod and count the outcome; raise WriteRefusedError and UnknownOutcomeError."""
        outcome = "failed"
        try:
            await self._binder.bind(call)
            outcome = "bound"
        except WriteRefusedError:
            outcome = "refused"
            raise
        except UnknownOutcomeError:
            outcome = "unknown"
            raise
        except Exception:
            _log.exception("pod %s/%s: bind failed", call.pod_namespace, call.pod_name)
            raise
        finally:
            self._runtime.metrics.binds.labels(outcome).inc()

    async def _filter(self, body: bytes) -> ExtenderFilterResult:
        # kube-scheduler filters one pod at a time: it binds no faster than this.
        await self._binder.limiter.wait_for_capacity()
        pod, names = extender_protocol.decode_filter_args(body)
        result = self.filter(pod, names)
        nodes = verbs.nodes_within_lead(
            self._cache,
            pod,
            result.node_names,
            lead=self._configuration.decisive_lead,
            spread_reservations=self._configuration.spread_reservations,
        )
        return msgspec.structs.replace(result, node_names=nodes)

    async def _prioritize(self, body: bytes) -> list[extender_protocol.HostPriority]:
        return self.prioritize(*extender_protocol.decode_filter_args(body))

    async def _preempt(self, body: bytes) -> ExtenderPreemptionResult:
        pod, victims = extender_protocol.decode_preemption_args(body)
        return ExtenderPreemptionResult(node_name_to_meta_victims=verbs.process_preemption(self._cache, pod, victims))

    async def _bind(self, body: bytes) -> ExtenderBindingResult:
        call = extender_protocol.decode_binding_args(body)
        if not self._binder.is_active:
            return ExtenderBindingResult(
                error="this replica of dra-reserve scheduler-extender is not the leader; the scheduler retries"
            )
        text = ""
        try:
            await self.bind(call)
        except WriteRefusedError as error:
            text = str(error)
        except UnknownOutcomeError as error:
            text = f"the outcome of the bind is unknown, its capacity stays held: {error}"
        if text:
            _log.info("pod %s/%s: not bound to node %s: %s", call.pod_namespace, call.pod_name, call.node, text)
            text = f"pod {call.pod_namespace}/{call.pod_name}, node {call.node}: {text}"
        return ExtenderBindingResult(error=text)
