"""Properties of the plugins that look at pods one by one, on any small cluster."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dra.engine.descheduling.plugins.failed_pods import RemoveFailedPods
from dra.engine.descheduling.plugins.inter_pod_anti_affinity import RemovePodsViolatingInterPodAntiAffinity
from dra.engine.descheduling.plugins.node_affinity import RemovePodsViolatingNodeAffinity
from dra.engine.descheduling.plugins.node_reservation import RemovePodsViolatingNodeReservation
from dra.engine.descheduling.plugins.node_taints import RemovePodsViolatingNodeTaints
from dra.engine.descheduling.plugins.pod_life_time import PodLifeTime
from dra.engine.descheduling.plugins.too_many_restarts import RemovePodsHavingTooManyRestarts
from dra.engine.descheduling.round import Limits, Profile, run_round
from tests.dra.engine.descheduling.clusters import at, node, pod, snapshot
from tests.dra.engine.descheduling.plugins.playing import container, statuses

TYPES = ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
PLUGINS = (
    (PodLifeTime, {"maxPodLifeTimeSeconds": 600}),
    (RemoveFailedPods, {"minPodLifetimeSeconds": 60}),
    (RemovePodsHavingTooManyRestarts, {"podRestartThreshold": 5}),
    (RemovePodsViolatingInterPodAntiAffinity, {}),
    (RemovePodsViolatingNodeAffinity, {"nodeAffinityType": TYPES}),
    (RemovePodsViolatingNodeTaints, {"includePreferNoSchedule": True}),
    (RemovePodsViolatingNodeReservation, {}),
)
TAINT = {"key": "t", "value": "v"}
EFFECTS = ["", "NoSchedule", "PreferNoSchedule", "PreferNoSchedule"]
POOL = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
ANTI = {"topologyKey": "pool", "labelSelector": {"matchLabels": {"app": "web"}}}
AFFINITIES = (
    {},
    {"nodeAffinity": {TYPES[0]: {"nodeSelectorTerms": [POOL]}}},
    {"nodeAffinity": {TYPES[1]: [{"weight": 5, "preference": POOL}]}},
    {"podAntiAffinity": {TYPES[0]: [ANTI]}},
)


@st.composite
def clusters(draw):
    """Draw a cluster of a few nodes and pods in every state that the plugins tell apart."""
    nodes = [
        node(
            f"n{number}",
            cpu=draw(st.sampled_from(["2", "4", "8"])),
            labels={"pool": pool} if (pool := draw(st.sampled_from(["", "a", "b"]))) else {},
            taints=[{**TAINT, "effect": effect}] if (effect := draw(st.sampled_from(EFFECTS))) else (),
            ready=draw(st.booleans()) or draw(st.booleans()),
            unschedulable=draw(st.sampled_from([False, False, True])),
            annotations=draw(st.sampled_from([{}, {"node.koordinator.sh/reservation": '{"resources":{"cpu":"1"}}'}])),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    pods = [
        pod(
            f"p{number}",
            draw(st.sampled_from(["", *(each.metadata.name for each in nodes)])),
            cpu=draw(st.sampled_from(["", "500m", "1"])),
            owner=draw(st.sampled_from(["web", "db", ""])),
            namespace=draw(st.sampled_from(["x", "y"])),
            created=draw(st.sampled_from([0, 30, -30, -900, -9000])),
            metadata=draw(st.sampled_from([{}, {}, {"deletionTimestamp": at(-1)}])),
            status={"phase": draw(st.sampled_from(["Running", "Running", "Pending", "Failed", "Succeeded"]))}
            | statuses(container(restarts=draw(st.sampled_from([0, 9])))),
            affinity=draw(st.sampled_from(AFFINITIES)),
            priority=draw(st.sampled_from([0, 5])),
            tolerations=draw(st.sampled_from([[], [], [{"operator": "Exists"}]])),
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    return nodes, pods


def profile(chosen, **more):
    plugins = tuple((plugin(), plugin.Args.model_validate(args, by_alias=True)) for plugin, args in chosen)
    return Profile(name="p", deschedule=plugins, **more)


def accepted(result):
    return [decision for decision in result.decisions if decision.verdict.accepted]


@given(cluster=clusters())
def test_all_plugins_together_evict_no_pod_twice_and_hold_a_place_for_each_that_comes_back(cluster):
    nodes, pods = cluster
    before = snapshot(nodes, pods)
    result = run_round(before, [profile(PLUGINS)], limits=Limits())
    assert not result.faults
    gone = accepted(result)
    assert max(Counter(decision.pod.metadata.uid for decision in gone).values(), default=1) == 1
    for decision in gone:
        given_up = decision.pod
        assert not given_up.metadata.deleting
        assert before.nodes[decision.node].node.ready
        if not given_up.terminal and given_up.metadata.owner_references:
            assert decision.verdict.node not in {"", decision.node}
    for host in before.nodes.values():
        arrived = [each for each in host.arriving.values() if not each.terminal]
        if arrived:
            assert host.requested.get("cpu", 0) <= host.allocatable_for_pods["cpu"]


@given(cluster=clusters(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_objects_changes_nothing(cluster, order):
    nodes, pods = cluster
    results = []
    for _ in range(2):
        result = run_round(snapshot(nodes, pods), [profile(PLUGINS)], limits=Limits(per_node=1))
        results.append([(each.pod.metadata.uid, each.plugin, each.verdict.accepted) for each in result.decisions])
        nodes, pods = order.sample(nodes, len(nodes)), order.sample(pods, len(pods))
    assert results[0] == results[1]


@given(cluster=clusters(), chosen=st.sampled_from(PLUGINS))
def test_a_second_round_finds_nothing_to_add_to_the_first(cluster, chosen):
    nodes, pods = cluster
    memory = {}
    first = snapshot(nodes, pods, memory=memory)
    run_round(first, [profile([chosen])], limits=Limits())
    again = run_round(first, [profile([chosen])], limits=Limits())
    assert accepted(again) == []


VIOLATIONS = [
    (plugin, args if "nodeAffinityType" not in args else {"nodeAffinityType": TYPES[:1]})
    for plugin, args in PLUGINS
    if plugin.__name__.startswith("RemovePodsViolating")
]


def moved(each, node):
    """Return the replacement of a pod on the node that had room for it."""
    metadata = structs.replace(each.metadata, name=f"{each.metadata.name}-new", uid=f"{each.metadata.uid}-new")
    return structs.replace(each, metadata=metadata, spec=structs.replace(each.spec, node_name=node))


@pytest.mark.parametrize("chosen", VIOLATIONS, ids=[plugin.__name__ for plugin, _ in VIOLATIONS])
@given(cluster=clusters())
def test_a_pod_that_was_moved_is_not_moved_again(cluster, chosen):
    nodes, pods = cluster
    first = run_round(snapshot(nodes, pods), [profile([chosen], cool_down_seconds=0)], limits=Limits())
    targets = {each.pod.metadata.uid: each.verdict.node for each in accepted(first) if each.verdict.node}
    after = [moved(each, node) if (node := targets.get(each.metadata.uid)) else each for each in pods]
    second = run_round(snapshot(nodes, after), [profile([chosen], cool_down_seconds=0)], limits=Limits())
    assert [each.pod.metadata.name for each in accepted(second) if each.pod.metadata.uid.endswith("-new")] == []


@given(cluster=clusters())
def test_a_pod_in_no_conflict_any_more_is_left_alone(cluster):
    nodes, pods = cluster
    after = snapshot(nodes, pods)
    result = run_round(after, [profile([PLUGINS[3]], requires_place=False)], limits=Limits())
    gone = {decision.pod.metadata.uid for decision in accepted(result)}
    stay = [each for each in pods if each.metadata.uid not in gone and not each.terminal and not each.metadata.deleting]
    for carrier in stay:
        rules = carrier.spec.affinity and carrier.spec.affinity.pod_anti_affinity
        host = after.nodes.get(carrier.spec.node_name)
        if not rules or host is None or not host.node.ready or "pool" not in host.labels:
            continue
        for other in stay:
            there = after.nodes.get(other.spec.node_name)
            same = there is not None and there.labels.get("pool") == host.labels["pool"]
            matches = other.metadata.labels["app"] == "web" and other.metadata.namespace == carrier.metadata.namespace
            assert other is carrier or not (same and matches)
