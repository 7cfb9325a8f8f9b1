"""Asks both plugins the same, and brings their answers into one form: the sets of pods that go.

Koordinator's plugin iterates over maps, so it may have several answers; ours has one.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugins.low_node_load import LowNodeLoad
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round import Limits, Profile, RoundResult, run_round
from dra.engine.descheduling.snapshot import ClusterObjects, Snapshot
from dra.model.node_metrics import NodeMetric
from dra.model.scheduling import SchedulerNode
from tests.low_node_load.cases import PROTECTED, Json

Pods = tuple[str, ...]

NOW = 1.8e9


def upstream(program: Path, questions: Sequence[Json], *, times: int = 20) -> list[list[Pods]]:
    """Return the answers of Koordinator's plugin. Raises CalledProcessError, and ValueError for an error it met."""
    asked = "".join(f"{json.dumps(question)}\n" for question in questions)
    done = subprocess.run(
        [program, "-times", str(times), "-v=0"],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if wrong := [answer["error"] for answer in answers if "error" in answer]:
        raise ValueError(f"koord-descheduler's plugin: {wrong[0]}")
    return [[tuple(pods) for pods in answer["evicted"]] for answer in answers]


class _Protection:
    name = "Protection"
    Args = PluginArgs

    def filter(self, pod: DeschedulingPod, snapshot: Snapshot, args: PluginArgs) -> str:  # noqa: ARG002 - a filter's
        return "protected" if PROTECTED in (pod.metadata.labels or {}) else ""


def ours(question: Json) -> Pods:
    """Return the pods that the plugin of this project makes go, sorted."""
    accepted = (decision for decision in _play(question).decisions if decision.verdict.accepted)
    return tuple(sorted("/".join(decision.pod.metadata.key) for decision in accepted))


def landings(question: Json) -> dict[str, list[str]]:
    """Return the names of the pods that the plugin of this project sends to each node."""
    landed: dict[str, list[str]] = {}
    for decision in _play(question).decisions:
        if decision.verdict.accepted:
            landed.setdefault(decision.verdict.node, []).append(decision.pod.metadata.name)
    return landed


def cpu_percent(question: Json, node: str, landed: Sequence[str]) -> float:
    """Return the percent of a node's CPUs in use once pods have landed there."""
    metrics = {metric["metadata"]["name"]: metric["status"] for metric in question["metrics"]}
    uses = {use["name"]: _milli(use["podUsage"]) for status in metrics.values() for use in status["podsMetric"]}
    there = [use["name"] for use in metrics[node]["podsMetric"]]
    used = _milli(metrics[node]["nodeMetric"]["systemUsage"]) + sum(uses[name] for name in (*there, *landed))
    capacity = next(
        each["status"]["allocatable"]["cpu"] for each in question["nodes"] if each["metadata"]["name"] == node
    )
    return 100 * used / int(capacity.removesuffix("m"))


def _milli(usage: Json) -> int:
    return int(usage["resources"]["cpu"].removesuffix("m"))


def _play(question: Json) -> RoundResult:
    args = LowNodeLoad.Args.model_validate(question["args"])
    metrics = []
    for given in question["metrics"]:
        status = given["status"] | {"updateTime": "2027-01-15T08:00:00Z"}
        metrics.append(msgspec.convert(given | {"status": status}, NodeMetric))
    objects = ClusterObjects(
        nodes=tuple(msgspec.convert(node, SchedulerNode) for node in question["nodes"]),
        pods=tuple(msgspec.convert(pod, DeschedulingPod) for pod in question["pods"]),
        node_metrics=tuple(metrics),
    )
    profile = Profile(
        name="p",
        balance=((LowNodeLoad(), args),),
        filters=((_Protection(), PluginArgs()),),
        requires_place=args.node_fit,
    )
    result = run_round(Snapshot(objects, now=NOW), [profile], limits=Limits())
    if result.faults:
        raise AssertionError(result.faults)
    return result
