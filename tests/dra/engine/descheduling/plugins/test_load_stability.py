"""LowNodeLoad over hours of virtual time: reports lag, events start rounds, and moved pods start anew.

A report comes each minute and shows the average of five minutes, a round every ten seconds. A pod that goes is replaced
on its new node by a pod with the same use, which no report names for a minute.
"""

from collections import Counter
from random import Random

import pytest

from dra.engine.descheduling.plugins.low_node_load import LowNodeLoad
from tests.dra.engine.descheduling.clusters import NOW, at, pod
from tests.dra.engine.descheduling.loads import metric, node, run

ARGS = {
    "lowThresholds": {"cpu": 30},
    "highThresholds": {"cpu": 60},
    "anomalyCondition": {"consecutiveAbnormalities": 2},
}
ROUND, REPORT, WINDOW = 10, 60, 300


class Cluster:
    """Nodes of four CPUs, and pods with a constant use."""

    def __init__(self, seed, *, noise=0.0):
        self.random = Random(seed)  # noqa: S311 - nothing secret
        self.noise = noise
        self.nodes = [node(f"n{number}", cpu="4") for number in range(5)]
        self.pods = {}
        self.use, self.made = {}, Counter()
        self.memory, self.reports, self.moves = {}, {}, []
        for number in range(30):
            on = min(int(self.random.expovariate(0.7)), 4)
            self.start(f"p{number}", f"n{on}", at=-86400, milli=self.random.randint(50, 400))

    def start(self, name, on, *, at, milli):
        self.made[name] += 1
        uid = f"uid-{name}-{self.made[name]}"
        self.pods[name] = self.pod(name, on, uid, at)
        self.use[uid] = milli

    @staticmethod
    def pod(name, on, uid, seconds):
        meta = {"uid": uid, "creationTimestamp": at(seconds)}
        return pod(name, on, cpu="10m", metadata=meta, status={"startTime": at(seconds)})

    def report(self, seconds):
        """Report what pods use that have run for a minute: their use by the part of the window that they ran."""
        for host in self.nodes:
            name = host.metadata.name
            there = [one for one in self.pods.values() if one.spec.node_name == name]
            used = []
            for one in there:
                ran = seconds - (-86400 if one.metadata.uid.endswith("-1") else self.started[one.metadata.uid])
                if ran >= REPORT:
                    milli = self.use[one.metadata.uid] * min(1.0, ran / WINDOW)
                    milli *= 1 + self.noise * self.random.uniform(-1, 1)
                    used.append((one, f"{round(milli)}m", "0", {}))
            self.reports[name] = metric(name, used, age=-seconds)

    def play(self, hours):
        self.started = {}
        for seconds in range(0, int(hours * 3600), ROUND):
            if seconds % REPORT == 0:
                self.report(seconds)
            result = run(
                LowNodeLoad(),
                ARGS,
                self.nodes,
                list(self.pods.values()),
                node_metrics=list(self.reports.values()),
                memory=self.memory,
                now=NOW + seconds,
            )
            for decision in result.decisions:
                if decision.verdict.accepted:
                    name = decision.pod.metadata.name
                    milli = self.use[decision.pod.metadata.uid]
                    self.start(name, decision.verdict.node, at=seconds, milli=milli)
                    self.started[self.pods[name].metadata.uid] = seconds
                    self.moves.append((seconds, name))

    def percent(self):
        load = Counter()
        for one in self.pods.values():
            load[one.spec.node_name] += self.use[one.metadata.uid]
        return {name: milli / 40 for name, milli in load.items()}


@pytest.mark.parametrize("seed", range(3))
def test_a_constant_load_comes_to_rest_and_no_pod_is_moved_twice_in_an_hour(seed):
    cluster = Cluster(seed)
    before = max(cluster.percent().values())
    cluster.play(1)
    assert max(Counter(name for _, name in cluster.moves).values(), default=0) <= 1
    assert all(seconds < 1800 for seconds, _ in cluster.moves), "at rest after half an hour"
    if before > 60:
        assert cluster.moves
        assert max(cluster.percent().values()) < before


@pytest.mark.parametrize("seed", range(1))
def test_noise_around_a_threshold_moves_few_pods(seed):
    cluster = Cluster(seed, noise=0.2)
    cluster.play(1)
    assert max(Counter(name for _, name in cluster.moves).values(), default=0) <= 2
