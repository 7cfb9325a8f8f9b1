"""Our descheduling plugins answer as the community's do; `make descheduler-peer` asks these anew (Go)."""

from collections import Counter

import pytest

from dra.engine.descheduling.plugin import Evict
from tests.descheduler_peer import answers, clusters, judge, policies
from tests.descheduler_peer.differences import Kind

QUICK = 60
"""Clusters that are compared each time; the others where tests marked long run."""

OTHERS_PERCENT = 1


def assert_alike(seeds):
    counts, others = Counter(), []
    for seed, plugin, kind, _ in answers.compared(seeds):
        counts[kind] += 1
        if kind is Kind.OTHER:
            others.append((seed, plugin))
    assert len(others) * 100 <= OTHERS_PERCENT * counts.total(), others
    assert counts[answers.SAME] > 0.8 * counts.total(), counts


def test_the_plugins_answer_as_upstream_does():
    assert_alike(range(QUICK))


@pytest.mark.long
def test_the_plugins_answer_as_upstream_does_on_all_clusters():
    assert_alike(range(QUICK, answers.CLUSTERS))


def test_a_round_that_holds_places_fills_no_node_beyond_its_room():
    for seed in range(20):
        question = judge.question(seed)
        objects = question["objects"]
        asked = [policy for policy in question["policies"] if judge.profile(policy).requires_place]
        for _, result in judge.ours(objects, asked, holds_places=True):
            before = judge.snapshot(objects)
            taken = {name: Counter(host.requested) for name, host in before.nodes.items()}
            for decision in result.decisions:
                if decision.verdict.accepted and decision.verdict.node:
                    taken[decision.verdict.node].update(before.requests(decision.pod))
            for name, host in before.nodes.items():
                assert all(taken[name][resource] <= amount for resource, amount in host.allocatable.items())


def test_each_plugin_evicts_in_many_of_the_recorded_answers():
    evicting = Counter()
    for _, of_seed in answers.recorded().values():
        evicting.update(name for name, given in zip(policies.PLUGINS, of_seed, strict=True) if any(given))
    assert len(answers.recorded()) == answers.CLUSTERS >= 500
    assert min(evicting[name] for name in policies.PLUGINS) >= 40, evicting


def test_clusters_are_in_states_that_clusters_get_into():
    for seed in range(60):
        objects = clusters.cluster(seed)
        nodes = [content for content in objects if content["kind"] == "Node"]
        pods = [content for content in objects if content["kind"] == "Pod"]
        for node in nodes:
            taints = {taint["key"] for taint in node["spec"]["taints"]}
            assert node["spec"]["unschedulable"] is ("node.kubernetes.io/unschedulable" in taints)
        assert all(pod["status"]["startTime"] for pod in pods)
        assert all(owner["uid"] for pod in pods for owner in pod["metadata"]["ownerReferences"])
        assert len({pod["metadata"]["uid"] for pod in pods}) == len(pods)
        for host in judge.snapshot(objects).nodes.values():
            assert all(host.requested.get(name, 0) <= amount for name, amount in host.allocatable.items())


class Silent:
    """A plugin that evicts nobody."""

    def __init__(self, name):
        self.name = name

    def deschedule(self, snapshot, args):  # noqa: ARG002 - it looks at nothing
        return ()

    balance = deschedule


class Greedy(Silent):
    """A plugin that evicts all pods on nodes that are ready."""

    def deschedule(self, snapshot, args):  # noqa: ARG002 - it looks at no arguments
        return [Evict(pod, "all go") for node in snapshot.selected_nodes() for pod in node.pods.values()]

    balance = deschedule


@pytest.mark.parametrize("broken", [Silent, Greedy])
@pytest.mark.parametrize("plugin", sorted(policies.PLUGINS))
def test_a_broken_plugin_is_noticed(plugin, broken, monkeypatch):
    monkeypatch.setitem(judge.REPLACED, plugin, broken(plugin))
    kinds = Counter(kind for _, name, kind, _ in answers.compared(range(12), plugins={plugin}) if name == plugin)
    assert kinds[Kind.OTHER] > 1, kinds
