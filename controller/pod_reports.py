"""Writes what pods were given into annotations that Koordinator's tools read (``koordinator: true``).

`dra.engine.pod_reports` decides what is written. Only pods in namespaces with the label ``reserve.dra/koordinator:
enabled`` have reports. The reports are in the pods themselves, so a controller that starts writes only those that are
missing or no longer true.
"""

import logging
from collections.abc import Mapping
from typing import Final

from controller.card_informer import CardInformer
from controller.enabled_namespaces import EnabledNamespaces
from controller.leadership import Leadership
from controller.metrics import ControllerMetrics
from controller.optional_part import OptionalPart
from dra.engine.pod_reports.device_allocated import UnknownCardError
from dra.engine.pod_reports.reports import is_reported, reports
from dra.kube.client import WRITE_TIMEOUT, Client
from dra.kube.clock import Clock
from dra.kube.errors import NotFound
from dra.kube.resources import PODS
from dra.kube.workqueue import BATCH_DELAY, RetryPolicy, WorkQueue
from dra.model.claims import ResourceClaim
from dra.model.meta import Key, PartialObjectMetadata, Uid
from dra.model.pods import Pod, claim_names

WORKERS: Final = 8
"""Number of pods written at the same time."""

RETRY: Final = (0.2, 60.0)
"""Seconds, minimum and maximum, before a failed write of a pod is retried."""

_log: Final = logging.getLogger(__name__)


class PodReporter(OptionalPart):
    """The loop that reports allocations on the pods of enabled namespaces.

    ``pods`` and ``claims`` are the objects as last watched, by their keys.
    """

    def __init__(  # noqa: PLR0913 - keyword-only: what is read of other parts, and what every loop needs
        self,
        client: Client,
        *,
        pods: Mapping[Key, Pod],
        claims: Mapping[Key, ResourceClaim],
        cards: CardInformer,
        namespaces: EnabledNamespaces,
        metrics: ControllerMetrics,
        clock: Clock,
        leadership: Leadership,
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._clock = clock
        self._leadership = leadership
        self._queue: WorkQueue[Key] = WorkQueue(clock, batch_delay=BATCH_DELAY)
        self._retry: RetryPolicy[Key] = RetryPolicy(
            _log,
            subject=lambda key: f"reports of pod {key[0]}/{key[1]}",
            bounds=RETRY,
            on_internal_error=metrics.failures.inc,
        )
        self._cards = cards
        cards.on_change(self._cards_changed)
        self._namespaces = namespaces
        namespaces.on_enable(self._namespace_enabled)
        self._users: dict[Key, set[Key]] = {}
        """The pods that name a claim, by the claim."""

        self._uses: dict[Key, tuple[Key, ...]] = {}
        """The claims that a pod names, by the pod."""

        self._waiting: set[Key] = set()
        """Pods on GPUs that no slice publishes yet."""

        self._written: dict[Uid, Mapping[str, str]] = {}
        """The reports written last: the cache of pods does not keep each annotation of a pod that has many."""

    def pod_changed(self, pod: Pod, /) -> None:
        """Record which claims a pod uses, and check the pod's reports."""
        key = pod.metadata.key
        used = tuple((key[0], name) for name in claim_names(pod))
        if used != self._uses.get(key, ()):
            self._forget_uses(key)
            self._uses[key] = used
            for claim in used:
                self._users.setdefault(claim, set()).add(key)
        if used:
            self._enqueue(key)

    def pod_gone(self, pod: Pod, /) -> None:
        """Forget a pod that is deleted, or that no longer uses claims."""
        self._forget_uses(pod.metadata.key)
        self._waiting.discard(pod.metadata.key)
        self._written.pop(pod.metadata.uid, None)

    def claim_changed(self, key: Key, /) -> None:
        """Check the reports of the pods that use a claim."""
        for pod in self._users.get(key, ()):
            self._enqueue(pod)

    async def run(self) -> None:
        """Write reports until cancelled, once it is known which namespaces have reports and which GPUs there are."""
        await self._namespaces.wait_for_sync()
        await self._cards.wait_for_sync()
        await self._queue.run(self.reconcile, workers=WORKERS, retry=self._retry)

    def _forget_uses(self, pod: Key) -> None:
        for claim in self._uses.pop(pod, ()):
            users = self._users.get(claim, set())
            users.discard(pod)
            if not users:
                self._users.pop(claim, None)

    def _enqueue(self, pod: Key) -> None:
        if pod[0] in self._namespaces:
            self._queue.add(pod)

    def _namespace_enabled(self, name: str) -> None:
        for key in self._uses:
            if key[0] == name:
                self._queue.add(key)

    def _cards_changed(self) -> None:
        for key in self._waiting:
            self._queue.add(key)
        self._waiting.clear()

    async def reconcile(self, key: Key) -> None:
        """Write the reports of one pod, unless they are right; raise ApiError."""
        pod = self._pods.get(key)
        if pod is None or not is_reported(pod) or key[0] not in self._namespaces:
            return
        used = (self._claims.get((key[0], name)) for name in claim_names(pod))
        try:
            wanted = reports(pod, (claim for claim in used if claim is not None), self._cards.cards)
        except UnknownCardError as error:
            self._waiting.add(key)
            _log.debug("pod %s/%s: its devices are not reported yet: %s", *key, error)
            return
        if self._is_written(pod, wanted):
            return
        try:
            await self._client.merge_patch(
                PODS,
                key,
                {"metadata": {"annotations": wanted}},
                model=PartialObjectMetadata,
                uid=pod.metadata.uid,
                timeout_seconds=self._leadership.write_timeout(WRITE_TIMEOUT, now=self._clock.now()),
            )
        except NotFound:
            return
        self._written[pod.metadata.uid] = wanted

    def _is_written(self, pod: Pod, wanted: Mapping[str, str]) -> bool:
        present = pod.metadata.annotations or {}
        missing = [name for name, value in wanted.items() if present.get(name) != value]
        written = self._written.get(pod.metadata.uid, {})
        return all(name not in present and written.get(name) == wanted[name] for name in missing)
