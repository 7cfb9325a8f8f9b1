"""A plugin is a function of a snapshot: its tests need no cluster."""

import msgspec
import pytest
from leave_spot_nodes import LeaveSpotNodes

from dra.engine.descheduling.plugin import Snapshot
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round import Limits, Profile, run_round
from dra.engine.descheduling.snapshot import ClusterObjects
from dra.model.scheduling import SchedulerNode

READY = [{"type": "Ready", "status": "True"}]
ENDS = [{"key": "example.com/spot-node-ends", "effect": "NoSchedule"}]


def node(name, *, taints=()):
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "spec": {"taints": list(taints)},
            "status": {"conditions": READY, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        },
        SchedulerNode,
    )


def pod(name, *, on, priority=0, cpu="1"):
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]},
            "spec": {
                "nodeName": on,
                "priority": priority,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
            },
            "status": {"phase": "Running", "conditions": READY},
        },
        DeschedulingPod,
    )


def play(nodes, pods, **args):
    plugin = LeaveSpotNodes()
    snapshot = Snapshot(ClusterObjects(nodes=tuple(nodes), pods=tuple(pods)), now=1_800_000_000)
    profile = Profile(name="mine", deschedule=((plugin, plugin.Args(**args)),))
    result = run_round(snapshot, [profile], limits=Limits())
    assert result.faults == []
    return result


def gone(result):
    return [decision.pod.metadata.name for decision in result.decisions if decision.verdict.accepted]


NODES = [node("spot", taints=ENDS), node("other")]


@pytest.mark.parametrize(
    ("pods", "args", "left"),
    [
        pytest.param([pod("a", on="spot"), pod("b", on="other")], {}, ["a"], id="only-pods-of-the-node-that-ends"),
        pytest.param([pod("a", on="spot"), pod("b", on="spot", priority=9)], {}, ["b", "a"], id="important-pods-first"),
        pytest.param([pod("a", on="spot"), pod("b", on="spot")], {"at_most": 1}, ["a"], id="at-most-one"),
        pytest.param([pod("a", on="spot", cpu="3"), pod("b", on="spot", cpu="3")], {}, ["a"], id="room-for-one"),
        pytest.param([pod("a", on="spot")], {"taint": "example.com/other"}, [], id="another-taint"),
    ],
)
def test_pods_leave_nodes_that_end(pods, args, left):
    assert gone(play(NODES, pods, **args)) == left


def test_a_round_with_more_pods_than_it_may_move_says_so():
    assert play(NODES, [pod("a", on="spot"), pod("b", on="spot")], at_most=1).notes == [
        "profile mine: LeaveSpotNodes: 1 pods leave spot nodes in this round; atMost allows no more"
    ]
