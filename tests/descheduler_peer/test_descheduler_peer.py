"""Our descheduling plugins answer as the community's do; `make descheduler-peer` asks these anew (Go)."""

from collections import Counter

import pytest

from tests.descheduler_peer import answers, clusters, judge, policies
from tests.descheduler_peer.differences import Kind

QUICK = 120
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


@pytest.mark.parametrize("broken", sorted(policies.PLUGINS))
def test_a_plugin_that_evicts_nobody_is_noticed(broken, monkeypatch):
    answer = judge.ours

    def silent(objects, asked, **more):
        for name, (given, result) in zip(policies.PLUGINS, answer(objects, asked, **more), strict=True):
            yield (() if name == broken else given), result

    monkeypatch.setattr(judge, "ours", silent)
    kinds = {kind for _, plugin, kind, _ in answers.compared(range(12)) if plugin == broken}
    assert Kind.OTHER in kinds
