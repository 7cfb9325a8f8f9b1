"""The history of what a node and its pods used: rounds of readings become samples in windows of some minutes."""

from collections.abc import Iterable, Mapping

from dra.engine.instants import Instant
from dra.engine.usage.kernel_files import CpuPressure
from dra.engine.usage.rounds import RoundUse, node_use, system_memory_bytes, use_between
from dra.engine.usage.samples import GpuReading, NodeReading, NodeSample, PodSample, Round
from dra.engine.usage.windows import SampleWindow
from dra.model.meta import Uid


class UseWindows:
    """The samples of CPUs and memory of a node, its system or a pod."""

    __slots__ = ("cpu_milli", "memory_bytes")

    def __init__(self, keep_seconds: float) -> None:
        self.cpu_milli = SampleWindow(keep_seconds)
        self.memory_bytes = SampleWindow(keep_seconds)

    def keep(self, seconds: float) -> None:
        """Keep samples for this time from now on."""
        self.cpu_milli.keep(seconds)
        self.memory_bytes.keep(seconds)


class GpuWindows:
    """The samples of a GPU, or of what a pod uses of a GPU."""

    __slots__ = ("memory_bytes", "memory_total_bytes", "minor", "utilization_percent")

    def __init__(self, keep_seconds: float, *, minor: int | None, memory_total_bytes: int) -> None:
        self.minor = minor
        self.memory_total_bytes = memory_total_bytes
        self.utilization_percent = SampleWindow(keep_seconds)
        self.memory_bytes = SampleWindow(keep_seconds)


class PodHistory:
    """The samples of one pod."""

    __slots__ = ("gpus", "pressure", "windows")

    def __init__(self, keep_seconds: float) -> None:
        self.pressure: CpuPressure | None = None
        """The last reading; None where the kernel does not tell."""

        self.windows = UseWindows(keep_seconds)
        self.gpus: dict[str, GpuWindows] = {}


class UsageHistory:
    """The samples of a node, its pods and its GPUs; bounded by the time that samples are kept, and by the pods."""

    def __init__(self, *, node_seconds: float, pod_seconds: float) -> None:
        """Create a history that keeps samples of the node and of pods for these times."""
        self._pod_seconds = pod_seconds
        self._last_node: NodeReading | None = None
        self._last_round: Round | None = None
        self._recorded_round: Round | None = None
        self._set_back: set[str] = set()
        """Pods whose counter began anew since the recorded round."""

        self.node = UseWindows(node_seconds)
        self.system = UseWindows(pod_seconds)
        self.pods: dict[Uid, PodHistory] = {}
        self.gpus: dict[str, GpuWindows] = {}
        self.sample: NodeSample | None = None
        """The last sample; None before there are two readings of the node."""

    def keep(self, *, node_seconds: float, pod_seconds: float) -> None:
        """Keep samples for these times from now on."""
        self._pod_seconds = pod_seconds
        self.node.keep(node_seconds)
        for windows in (self.system, *(pod.windows for pod in self.pods.values())):
            windows.keep(pod_seconds)

    def observe_node(self, reading: NodeReading) -> None:
        """Add a reading of the node alone."""
        before, self._last_node = self._last_node, reading
        self.node.memory_bytes.add(reading.at, reading.memory.used_bytes)
        milli = None if before is None else node_use(before, reading)
        if before is None or milli is None:
            return
        self.node.cpu_milli.add(reading.at, milli, seconds=reading.at - before.at)
        last = self.sample
        self.sample = NodeSample(
            at=reading.at,
            cpu_milli=milli,
            memory_bytes=reading.memory.used_bytes,
            pods_at=None if last is None else last.pods_at,
            pods={} if last is None else last.pods,
            system_cpu_milli=None if last is None else last.system_cpu_milli,
            system_memory_bytes=None if last is None else last.system_memory_bytes,
        )

    def observe_round(self, this: Round, *, known: Iterable[Uid], record: bool = True) -> None:
        """Add a round of readings; forget all pods but the `known` ones, which may be without a reading this time.

        Without `record`, the round only makes the last sample; windows get samples from one recorded round to the next.
        """
        remaining = set(known)
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid in remaining}
        before, self._last_round = self._last_round, this
        use = None if before is None else use_between(before, this)
        if use is not None:
            self._set_back |= (this.pods.keys() - use.pods.keys()) | (this.others.keys() - use.others.keys())
            self._show(this, use)
        if record:
            self._record(this)

    def observe_gpus(self, at: Instant, readings: Iterable[GpuReading]) -> None:
        """Add what the GPUs do at this moment; forget those that are gone."""
        present = {reading.uuid: reading for reading in readings}
        self.gpus = {uuid: gpu for uuid, gpu in self.gpus.items() if uuid in present}
        for uuid, reading in present.items():
            self._observe_gpu(self.gpus, reading, at=at, percent=reading.utilization_percent)
            self.gpus[uuid].memory_bytes.add(at, reading.memory_used_bytes)
        for uid, pod in self.pods.items():
            uses = {uuid: reading.pods[uid] for uuid, reading in present.items() if uid in reading.pods}
            pod.gpus = {uuid: gpu for uuid, gpu in pod.gpus.items() if uuid in uses}
            for uuid, use in uses.items():
                self._observe_gpu(pod.gpus, present[uuid], at=at, percent=use.utilization_percent)
                pod.gpus[uuid].memory_bytes.add(at, use.memory_bytes)

    def _observe_gpu(
        self, gpus: dict[str, GpuWindows], reading: GpuReading, *, at: Instant, percent: float | None
    ) -> None:
        if reading.uuid not in gpus:
            gpus[reading.uuid] = GpuWindows(
                self._pod_seconds, minor=reading.minor, memory_total_bytes=reading.memory_total_bytes
            )
        if percent is not None:
            gpus[reading.uuid].utilization_percent.add(at, percent)

    def _show(self, this: Round, use: RoundUse) -> None:
        """Make a round the last sample."""
        if self.sample is None or use.system_cpu_milli is None:
            return
        self.sample = NodeSample(
            at=self.sample.at,
            cpu_milli=self.sample.cpu_milli,
            memory_bytes=self.sample.memory_bytes,
            pods_at=this.node.at,
            pods=use.pods,
            system_cpu_milli=use.system_cpu_milli,
            system_memory_bytes=use.system_memory_bytes,
        )

    def _record(self, this: Round) -> None:
        """Add what was used since the last recorded round to the windows."""
        before, self._recorded_round = self._recorded_round, this
        without, self._set_back = self._set_back, set()
        at = this.node.at
        self.system.memory_bytes.add(at, system_memory_bytes(this))
        for uid, reading in this.pods.items():
            if uid not in self.pods:
                self.pods[uid] = PodHistory(self._pod_seconds)
            self.pods[uid].windows.memory_bytes.add(reading.at, reading.memory_bytes)
            self.pods[uid].pressure = reading.pressure
        if before is None:
            return
        use = use_between(before, this, without=without)
        if use.system_cpu_milli is not None:
            self.system.cpu_milli.add(at, use.system_cpu_milli, seconds=at - before.node.at)
        self._record_pods(before, this, use.pods)

    def _record_pods(self, before: Round, this: Round, samples: Mapping[Uid, PodSample]) -> None:
        for uid, sample in samples.items():
            at = this.pods[uid].at
            seconds = at - before.pods[uid].at
            self.pods[uid].windows.cpu_milli.add(at, sample.cpu_milli, seconds=seconds)
