"""Samples what the node uses each second, and what its pods use each ten seconds or, on demand, each second.

While batch pods are held back, the use of each pod is needed each second. Then only the counters of CPUs are read that
often: they are a third of the files, and the cheapest ones. Memory is read each ten seconds in any case, and what is
averaged over minutes is recorded at this pace.

A kernel may take long to answer: it sums the counters of many CPUs. So rounds of pods are read in a thread.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from dra.engine.instants import Instant
from dra.engine.usage.history import UsageHistory
from dra.engine.usage.kernel_files import MalformedKernelFileError
from dra.engine.usage.samples import NodeSample, Round
from dra.kube.clock import SYSTEM, Clock
from dra.model.meta import Uid
from kubeletplugin.cgroups.cgroup_names import CgroupPath
from kubeletplugin.cgroups.pod_cgroups import PodHierarchies
from kubeletplugin.colocation.metrics import ColocationMetrics
from kubeletplugin.colocation.usage.node_files import NodeFileReader
from kubeletplugin.colocation.usage.pod_files import PodFileReader

POD_INTERVAL: Final = 10.0
"""Seconds between two rounds of pods that are recorded."""

REASONS_MAX: Final = 10
"""Reasons that are logged in one round at most: each may name a file."""

_log: Final = logging.getLogger(__name__)


class UsageSampler:
    """Samples one node; `history` has the samples."""

    def __init__(
        self,
        history: UsageHistory,
        node_files: NodeFileReader,
        pod_files: PodFileReader,
        *,
        metrics: ColocationMetrics,
        clock: Clock = SYSTEM,
    ) -> None:
        self.history = history
        self._node_files = node_files
        self._pod_files = pod_files
        self._metrics = metrics
        self._clock = clock
        self._recorded_at: Instant | None = None
        self._failure = ""
        self._unreadable: frozenset[str] = frozenset()

    @property
    def unreadable(self) -> int:
        """The number of pods' cgroups that could not be read in the last round."""
        return len(self._pod_files.unreadable)

    @property
    def sample(self) -> NodeSample | None:
        """The last sample; None before there are two readings of the node."""
        return self.history.sample

    def sample_node(self) -> None:
        """Add a sample of the node; a failure is logged once and leaves the samples as they are."""
        began = time.thread_time()
        try:
            self.history.observe_node(self._node_files.read())
        except (OSError, MalformedKernelFileError) as error:
            self._report_failure(str(error))
        else:
            self._failure = ""
        self._metrics.sampling_seconds.labels("node").inc(time.thread_time() - began)

    async def sample_pods(
        self,
        hierarchies: PodHierarchies,
        known: Mapping[Uid, CgroupPath | None],
        others: Mapping[str, CgroupPath],
        *,
        each_second: bool,
    ) -> bool:
        """Add a round of pods if one is due, and always with `each_second`; return whether one was recorded.

        `known` are all pods of the node by their uid, with None for those whose cgroup is not there or says nothing;
        `others` are the cgroups of pods that the API server does not know.
        """
        now = self._clock.now()
        record = self._recorded_at is None or now - self._recorded_at >= POD_INTERVAL
        if not record and not each_second:
            return False
        if record:
            self._recorded_at = now
        paths = {uid: path for uid, path in known.items() if path is not None}
        try:
            this = await asyncio.to_thread(self._read, hierarchies, paths, others, memory=record)
        except (OSError, MalformedKernelFileError) as error:
            self._report_failure(str(error))
            return False
        began = time.thread_time()
        self.history.observe_round(this, known=known.keys(), record=record)
        self._metrics.sampling_seconds.labels("pods").inc(time.thread_time() - began)
        self._report_unreadable()
        return record

    def _read(
        self,
        hierarchies: PodHierarchies,
        paths: Mapping[Uid, CgroupPath],
        others: Mapping[str, CgroupPath],
        *,
        memory: bool,
    ) -> Round:
        began = time.thread_time()
        node = self._node_files.read()
        kubepods = self._pod_files.read_kubepods(hierarchies)
        by_path = dict(self._pod_files.read(hierarchies, {*paths.values(), *others.values()}, memory=memory))
        self._metrics.sampling_seconds.labels("pods").inc(time.thread_time() - began)
        return Round(
            node=node,
            pods={uid: by_path[path] for uid, path in paths.items() if path in by_path},
            others={uid: by_path[path] for uid, path in others.items() if path in by_path},
            kubepods_cpu_nanos=kubepods,
        )

    def _report_failure(self, text: str) -> None:
        if text != self._failure:
            _log.warning("what the node uses is not sampled: %s", text)
        self._failure = text

    def _report_unreadable(self) -> None:
        """Log each reason why pods are not sampled once, with one of the pods."""
        paths = {text: path for path, text in self._pod_files.unreadable.items()}
        for text in sorted(paths.keys() - self._unreadable)[:REASONS_MAX]:
            _log.warning("cgroup %s: the pod is not sampled: %s", "/".join(paths[text]), text)
        self._unreadable = frozenset(paths)
