"""Batch resources of 5,000 nodes with 30 pods each: what the controller's loop remembers, and what a report costs.

Reports are decoded from JSON as a node's agent writes them (percentiles of three windows included), put into the cache
as the informer does, and decided on. The objects that informers store are kept, too. Times are those of the processor:
what else runs on the machine does not count. The API server and the sending of requests are not in it.

    python -m bench.colocation [--nodes N] [--pods N] [--write]
"""

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import thread_time
from typing import Any, Final

import msgspec

from bench import readme
from dra.engine.colocation import watched
from dra.engine.colocation.cache import BatchCache
from dra.engine.colocation.configuration_cache import SloConfigurationCache
from dra.engine.colocation.decide import decide
from dra.engine.colocation.watched import WatchedNodeMetric, WatchedPod
from dra.engine.instants import Moment
from dra.model.node_pods import AgentNode, ConfigMap

MARK: Final = "colocation"
WALL: Final = datetime(2026, 11, 28, tzinfo=UTC).timestamp()
INTERVAL: Final = 60.0
"""Seconds between two reports of a node."""

CPU_LIMIT: Final = 25.0
"""Percent of a core for 5,000 nodes."""

MEMORY_LIMIT: Final = 300.0
"""MiB for 5,000 nodes and 150,000 pods."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Loop:
    """The cache of the loop, and the objects that its informers store."""

    def __init__(self) -> None:
        configuration = SloConfigurationCache()
        metadata = {"namespace": "koordinator-system", "name": "slo-controller-config", "uid": "c"}
        data = {"colocation-config": '{"enable": true}'}
        configuration.observe(msgspec.convert({"metadata": metadata, "data": data}, ConfigMap))
        self.cache = BatchCache(configuration)
        self.stored: dict[tuple[str, str], object] = {}
        self._decode_pod = msgspec.json.Decoder(WatchedPod).decode
        self._decode_metric = msgspec.json.Decoder(WatchedNodeMetric).decode
        self._decode_node = msgspec.json.Decoder(AgentNode).decode

    def node(self, text: bytes) -> None:
        """Observe a Node in JSON."""
        node = self._decode_node(text)
        watched.trim_node(node)
        self.stored["node", node.metadata.name] = node
        self.cache.observe_node(node, now=0.0)

    def pod(self, text: bytes) -> None:
        """Observe a pod in JSON."""
        pod = self._decode_pod(text)
        watched.trim_pod(pod, share=sys.intern)
        self.stored["pod", pod.metadata.name] = pod
        self.cache.observe_pod(pod)

    def report(self, text: bytes, *, at: float) -> None:
        """Observe a NodeMetric in JSON."""
        metric = self._decode_metric(text)
        watched.trim_metric(metric, share=sys.intern)
        self.stored["metric", metric.metadata.name] = metric
        self.cache.observe_metric(metric, now=at)

    def decide(self, *, at: float) -> int:
        """Decide on all nodes that have changed; return the number of writes."""
        writes = 0
        for name in self.cache.dirty.take():
            view = self.cache.view(name, now=Moment(instant=at, wall=WALL + at))
            for action in decide(view, now=at).actions if view is not None else ():
                self.cache.record_write(action, version="2", now=at)
                writes += 1
        return writes


def node_text(name: str) -> bytes:
    """Return a Node in JSON."""
    amounts = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    labels = {f"example.com/label-{number}": "some-value" for number in range(12)}
    metadata = {"name": name, "uid": f"{name}-0123-4567-89ab-cdef01234567", "resourceVersion": "1", "labels": labels}
    return json.dumps({"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}}).encode()


def pod_text(node: str, number: int) -> bytes:
    """Return a pod in JSON, every tenth of them a batch pod."""
    batch = number % 10 == 0
    requests = (
        {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
        if batch
        else {"cpu": "1", "memory": "2Gi"}
    )
    name = _pod_name(node, number)
    metadata = {
        "namespace": f"team-{number % 40}",
        "name": name,
        "uid": f"{name}-4567-89ab-cdef01234567",
        "resourceVersion": "123456",
        "labels": {"app": "web", "koordinator.sh/qosClass": "BE" if batch else "LS"},
        "annotations": {"example.com/note": "x" * 200},
    }
    containers = [{"name": "main", "image": "x", "resources": {"requests": requests}}] * 2
    spec = {"nodeName": node, "priority": 5500 if batch else 9500, "containers": containers}
    status = {"phase": "Running", "qosClass": "Burstable", "startTime": "2026-11-28T00:00:00Z"}
    return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def report_text(node: str, *, pods: int, minute: int) -> bytes:
    """Return a NodeMetric in JSON."""
    usage = {"resources": {"cpu": f"{500 + minute}m", "memory": "1073741824"}}
    windows = [
        {"duration": duration, "usage": dict.fromkeys(("avg", "p50", "p90", "p95", "p99"), usage)}
        for duration in ("5m0s", "10m0s", "30m0s")
    ]
    reported = [_reported(node, number, minute) for number in range(pods)]
    at = datetime.fromtimestamp(WALL + INTERVAL * minute, UTC).isoformat()
    node_metric = {"nodeUsage": usage, "systemUsage": usage, "aggregatedNodeUsages": windows}
    status = {"updateTime": at, "nodeMetric": node_metric, "podsMetric": reported}
    return json.dumps({"metadata": {"name": node, "uid": node, "resourceVersion": "1"}, "status": status}).encode()


def _reported(node: str, number: int, minute: int) -> dict[str, Any]:
    name = _pod_name(node, number)
    return {
        "namespace": f"team-{number % 40}",
        "name": name,
        "uid": f"{name}-4567-89ab-cdef01234567",
        "priority": "koord-prod",
        "qos": "LS",
        "podUsage": {"resources": {"cpu": f"{300 + 7 * ((number + minute) % 5)}m", "memory": "734003200"}},
    }


def _pod_name(node: str, number: int) -> str:
    return f"web-7d9f8b6c5d-{node}-{number}"


def measure(texts: Iterator[bytes], act: Callable[[bytes], object]) -> float:
    """Return the seconds of the processor that the act takes on all texts, without their making."""
    spent = 0.0
    for text in texts:
        begun = thread_time()
        act(text)
        spent += thread_time() - begun
    return spent


def resident_mib() -> float:
    """Return the memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / (1 << 20)


def main() -> int:
    """Measure and print; exit with 1 if a limit is passed."""
    asked = _arguments()
    names = [f"node-{number:05}" for number in range(asked.nodes)]
    loop, before = Loop(), resident_mib()
    for name in names:
        loop.node(node_text(name))
    pods = measure((pod_text(name, number) for name in names for number in range(asked.pods)), loop.pod)
    with_pods = resident_mib()
    loop.decide(at=0.0)
    first = measure(
        (report_text(name, pods=asked.pods, minute=1) for name in names), lambda text: loop.report(text, at=60.0)
    )
    with_reports = resident_mib()
    begun = thread_time()
    writes = loop.decide(at=60.0)
    first += thread_time() - begun
    second = measure(
        (report_text(name, pods=asked.pods, minute=2) for name in names), lambda text: loop.report(text, at=120.0)
    )
    begun = thread_time()
    again = loop.decide(at=120.0)
    second += thread_time() - begun
    after = resident_mib()
    number, percent = asked.nodes * asked.pods, 100 * second / INTERVAL
    text = "\n".join(
        [
            f"{asked.nodes:,} nodes, {number:,} pods; Python {sys.version.split()[0]}.\n",
            *("| | |", "|---|---:|"),
            f"| memory of nodes and pods, MiB | {with_pods - before:,.0f} |",
            f"| with their reports, MiB | {with_reports - before:,.0f} |",
            f"| after the second minute, MiB | {after - before:,.0f} |",
            f"| a pod observed, µs | {pods / number * 1e6:,.0f} |",
            f"| a report read and decided on, µs | {second / asked.nodes * 1e6:,.0f} |",
            f"| a report in each minute, percent of a core | {percent:.1f} |",
            f"| writes in the first minute | {writes:,} |",
            f"| writes in the second, in which use changes little | {again:,} |",
        ]
    )
    print(text)
    if asked.write:
        readme.write(text, mark=MARK)
    if percent > CPU_LIMIT or after - before > MEMORY_LIMIT:
        print(f"more than {CPU_LIMIT:g} % of a core or {MEMORY_LIMIT:g} MiB", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30, help="pods of each node")
    parser.add_argument("--write", action="store_true", help="put the table into bench/README.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
