"""Counts the devices that namespaces, workloads and classes hold and use, for the metrics of the controller.

Ten thousand claims take a tenth of a second, so they are counted in steps before a scrape is answered: claims are
decided on in between.
"""

from collections.abc import Iterable, Mapping

from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.runtime import Runtime
from controller.step_runner import run_steps
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.claim_state import ClaimState
from dra.engine.colocation.watched import WatchedNodeMetric
from dra.engine.device_usage.gpu_activity import GpuActivity
from dra.engine.device_usage.groups import Activity, DeviceNumbers, UsageGroup, count_groups_in_steps, limit_groups
from dra.engine.instants import Moment
from dra.kube.event_handlers import ignore


class DeviceUsage:
    """The devices of the cached claims by group, with the GPUs that are known to compute nothing."""

    def __init__(
        self, runtime: Runtime[ControllerMetrics], informers: ControllerInformers, *, cache: ClaimCache
    ) -> None:
        self._runtime = runtime
        self._informers = informers
        self._cache = cache
        self._activity = GpuActivity()
        self.numbers: Mapping[UsageGroup, DeviceNumbers] = {}
        """The numbers of devices when they were counted last."""

    def watch_gpus(self) -> None:
        """Learn from ResourceSlices and NodeMetrics which GPUs compute; both must be readable."""
        slices, metrics = self._informers.slice_taints, self._informers.node_metrics
        slices.subscribe(self._activity.observe_slice, self._activity.forget_slice, restored=ignore)
        metrics.subscribe(self._observe_metric, self._activity.forget_metric, restored=ignore)

    async def count(self) -> None:
        """Count the devices of all cached claims now."""
        activity = self.activity(self._runtime.moment())
        self.numbers = limit_groups(await run_steps(count_groups_in_steps(self.records(), activity)))

    def records(self) -> Iterable[ClaimState]:
        """Return the cached claims."""
        return self._cache.records()

    def activity(self, now: Moment) -> Activity:
        """Return a function that reports whether a device computes at a time."""
        return self._activity.at(now)

    def _observe_metric(self, metric: WatchedNodeMetric) -> None:
        self._activity.observe_metric(metric, now=self._runtime.instant())
