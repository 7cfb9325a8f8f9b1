"""The bench of descheduling asks the community's plugins about the cluster that ours are asked about."""

import io
import json

import pytest

from bench import descheduling_peer
from bench.descheduling_cluster import Cluster
from tests.descheduler_peer import policies


@pytest.fixture
def asked():
    file = io.StringIO()
    question = descheduling_peer.Question(file, times=2)
    cluster = Cluster(nodes=6, pods=40, show=question.show)
    question.end()
    return cluster, json.loads(file.getvalue())


def test_the_question_has_all_nodes_and_pods(asked):
    cluster, question = asked
    names = {kind: [] for kind in ("Node", "Pod")}
    for content in question["objects"]:
        names[content["kind"]].append(content["metadata"]["name"])
    assert names == {
        "Node": [node.metadata.name for node in cluster.nodes],
        "Pod": [pod.metadata.name for pod in cluster.pods],
    }


def test_both_sides_have_the_ten_plugins_of_the_community(asked):
    _, question = asked
    [policy] = question["policies"]
    enabled = [
        name for profile in policy["profiles"] for plugins in profile["plugins"].values() for name in plugins["enabled"]
    ]
    assert sorted(enabled) == sorted(policies.PLUGINS)


def test_our_side_runs_the_policy(asked):
    cluster, _ = asked
    seconds, evicted = descheduling_peer._ours(cluster, times=2)
    assert len(seconds) == 2
    assert all(0 < snapshot < whole for snapshot, whole in seconds)
    assert evicted > 0
