"""RemoveDuplicates: how many replicas of a workload leave a node, and which."""

import pytest
from pydantic import ValidationError

from dra.api.descheduler.spread_plugin_args import RemoveDuplicatesArgs
from dra.engine.descheduling.plugin import WorkloadLimit
from dra.engine.descheduling.plugins.duplicates import RemoveDuplicates
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import job, node, pod, reservation
from tests.dra.engine.descheduling.plugins.spreading import GPU_TAINT, balance, evicted, names, replicas
from tests.violations import for_each_case

PLUGIN = RemoveDuplicates()


def nodes(count, **more):
    return [node(f"n{number}", cpu="100", **more) for number in range(1, count + 1)]


def masters(count):
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    return [node(f"master{number}", cpu="100", taints=[taint]) for number in range(count)]


def owned_twice(pods):
    """Return the pods with a second owner, which is no controller."""
    second = {"apiVersion": "v1", "kind": "ConfigMap", "name": "marker", "uid": "uid-marker"}
    first = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
    return [
        pod(replica.metadata.name, replica.spec.node_name, metadata={"ownerReferences": [first, second]})
        for replica in pods
    ]


def with_images(*images, on="n1"):
    return [
        pod(f"web-{number}", on, cpu=None, containers=[{"name": "c", "image": image}])
        for number, image in enumerate(images)
    ]


@for_each_case(
    [
        pytest.param(nodes(3), replicas([5, 3, 1]), 2, id="5-3-1-on-three-nodes-gives-two"),
        pytest.param(nodes(2), replicas([5, 3]), 1, id="5-3-on-two-nodes-gives-one"),
        pytest.param(nodes(3), replicas([2, 0, 0]), 1, id="two-on-one-of-three-nodes-gives-one"),
        pytest.param(
            nodes(3),
            [*replicas([5, 3, 1]), *replicas([1, 3, 5], owner="api")],
            4,
            id="two-workloads-are-counted-apart",
        ),
        pytest.param(nodes(1), replicas([5]), 0, id="a-single-node-keeps-all"),
        pytest.param(nodes(3), replicas([7, 0, 0]), 4, id="7-0-0-keeps-a-third-rounded-up"),
        pytest.param(nodes(3), replicas([4, 4, 1]), 2, id="4-4-1-gives-one-from-each-full-node"),
        pytest.param(nodes(2), replicas([5, 2]), 1, id="5-2-on-two-nodes-gives-one"),
        pytest.param(nodes(3), replicas([3, 3, 3]), 0, id="evenly-spread-stays"),
        pytest.param(
            [*nodes(3), *masters(3)], replicas([4, 4, 4]), 0, id="nodes-with-untolerated-taints-are-no-targets"
        ),
        pytest.param(
            [*nodes(2), node("n3", unschedulable=True)], replicas([4, 0, 2]), 1, id="a-cordoned-node-is-no-target"
        ),
        pytest.param(
            [node("n1"), node("n2", cpu="50m"), node("n3", cpu="50m")],
            replicas([4, 0, 0], cpu="100m"),
            0,
            id="nodes-without-room-are-no-targets",
        ),
        pytest.param(
            [node("n1", cpu="4"), node("n2", cpu="100m")],
            replicas([4, 0], cpu="100m"),
            1,
            id="each-place-is-held-before-the-next-is-asked-for",
        ),
        pytest.param(
            nodes(2),
            [*replicas([3, 0]), *replicas([0, 3], prefix="kept", labels={"protected": ""})],
            0,
            id="protected-replicas-count",
        ),
        pytest.param(nodes(3), owned_twice(replicas([5, 3, 1])), 2, id="a-pod-with-two-owners-goes-once"),
        pytest.param(
            nodes(3), with_images("foo", "bar", "baz", "foo"), 1, id="other-images-of-an-owner-are-no-replicas"
        ),
        pytest.param(
            nodes(2),
            [pod("rabbitmq-0", "n1", owner="rabbitmq"), pod("rabbitmq-0", "n1", owner="rabbitmq", namespace="other")],
            0,
            id="workloads-of-one-name-in-two-namespaces-are-apart",
        ),
        pytest.param(
            nodes(3),
            replicas([4, 0, 0], nodeSelector={"kubernetes.io/hostname": "n1"}),
            0,
            id="pods-that-only-one-node-may-run-stay",
        ),
        pytest.param(
            [node("n1"), node("n2", cpu="200m")],
            [*replicas([3, 0], cpu="100m"), pod("other", "n2", cpu="150m", owner="api")],
            0,
            id="three-on-a-node-stay-while-150m-of-200m-elsewhere-are-used",
        ),
        pytest.param(
            [node("n1"), node("n2", cpu="200m")],
            [*replicas([3, 0], cpu="100m"), pod("other", "n2", cpu="100m", owner="api")],
            1,
            id="one-of-three-goes-when-100m-of-200m-elsewhere-are-free",
        ),
        pytest.param(
            nodes(2), replicas([3, 0], status={"phase": "Succeeded"}), 0, id="pods-that-have-ended-do-not-count"
        ),
        pytest.param(
            nodes(2),
            [pod(f"bare-{number}", "n1", owner="") for number in range(4)],
            0,
            id="bare-pods-are-no-replicas-of-each-other",
        ),
        pytest.param(
            [*nodes(2), node("gpu", cpu="100", taints=[GPU_TAINT])],
            replicas([4, 0], tolerations=[{"key": "gpu", "operator": "Exists"}]),
            2,
            id="a-tolerated-taint-makes-a-target",
        ),
        pytest.param(
            [*nodes(1), node("n2", ready=False), node("n3", ready=False)],
            replicas([4, 0, 0]),
            0,
            id="nodes-that-are-not-ready-are-no-targets",
        ),
    ],
)
def test_replicas_above_the_limit_of_their_node_go(cluster, pods, count):
    gone = evicted(balance(PLUGIN, cluster, pods))
    assert len(gone) == count
    assert len({pod.metadata.uid for pod in gone}) == count


def test_what_a_reservation_holds_is_no_room_for_a_replica():
    cluster = [node("n1"), node("n2", cpu="1")]
    held = reservation(on="n2", cpu="1", owners=[{"controller": {"kind": "Job", "name": "x", "namespace": "ns"}}])
    assert names(balance(PLUGIN, cluster, replicas([3, 0]), reservations=[held])) == []


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param(
            [
                pod("important", "n1", priority=100),
                pod("plain", "n1", priority=0),
            ],
            ["plain"],
            id="the-highest-priority-stays",
        ),
        pytest.param(
            [
                pod("ready", "n1", created=-10),
                pod("starting", "n1", created=-20, status={"conditions": [{"type": "Ready", "status": "False"}]}),
            ],
            ["starting"],
            id="then-the-ready-one-stays",
        ),
        pytest.param(
            [pod("old", "n1", created=-1000), pod("new", "n1", created=-10)], ["new"], id="then-the-oldest-stays"
        ),
        pytest.param([pod("b", "n1", created=-10), pod("a", "n1", created=-10)], ["a"], id="equals-go-by-name"),
        pytest.param(
            [pod("new", "n1", created=-10, labels={"protected": ""}), pod("old", "n1", created=-1000)],
            ["old"],
            id="the-next-goes-for-a-protected-one",
        ),
    ],
)
def test_the_most_important_replica_stays(pods, gone):
    assert names(balance(PLUGIN, nodes(2), pods)) == gone
    assert names(balance(PLUGIN, nodes(2), pods[::-1])) == gone


def test_replicas_go_only_to_nodes_below_the_limit():
    result = balance(PLUGIN, nodes(4), replicas([5, 2, 0, 1]))
    assert result.decisions[0].receivers == {"n3", "n4"}
    assert sorted(decision.verdict.node for decision in result.decisions) == ["n3", "n3", "n4"]


def test_a_replica_on_the_way_counts_where_it_is_to_run():
    pods = replicas([3, 0])
    moving = job(pods[0], node="n2")
    assert names(balance(PLUGIN, nodes(2), pods, jobs=[moving])) == []


class OneOfEach:
    """A filter by which one replica of each workload may go at a time."""

    name = "OneOfEach"
    Args = None

    def filter(self, pod, snapshot, args):  # noqa: ARG002 - a filter need not use what it is given
        moved = {other.metadata.owner_references[0].name for other in snapshot.moves_since(0)}
        return WorkloadLimit("one migrates") if pod.metadata.owner_references[0].name in moved else ""


def test_no_more_replicas_are_asked_for_once_their_workload_is_at_its_limit():
    pods = [*replicas([9, 9, 0]), *replicas([0, 0, 4], owner="api")]
    result = balance(PLUGIN, nodes(3), pods, filters=((OneOfEach(), None),))
    asked = [
        (decision.pod.metadata.owner_references[0].name, decision.verdict.accepted) for decision in result.decisions
    ]
    assert sorted(asked) == [("api", False), ("api", True), ("web", False), ("web", True)]


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        pytest.param(Limits(per_node=1), 2, id="a-node-at-its-limit-does-not-stop-the-next"),
        pytest.param(Limits(per_namespace=1), 2, id="a-namespace-at-its-limit-does-not-stop-the-next"),
        pytest.param(Limits(total=3), 3, id="the-total-ends-the-round"),
        pytest.param(Limits(total=0), 0, id="a-total-of-zero-lets-nobody-go"),
    ],
)
def test_limits_stop_what_they_are_about(limits, count):
    pods = [*replicas([4, 0, 0, 0]), *replicas([0, 4, 0, 0], owner="api", namespace="other")]
    assert len(names(balance(PLUGIN, nodes(4), pods, limits=limits))) == count


@pytest.mark.parametrize(
    ("args", "count"),
    [
        pytest.param({}, 1, id="all-namespaces-by-default"),
        pytest.param({"namespaces": {"exclude": ["ns"]}}, 0, id="excluded-namespace"),
        pytest.param({"namespaces": {"include": ["other"]}}, 0, id="not-an-included-namespace"),
        pytest.param({"namespaces": {"include": ["ns"]}}, 1, id="included-namespace"),
        pytest.param({"excludeOwnerKinds": ["ReplicaSet"]}, 0, id="excluded-kind-of-owner"),
        pytest.param({"excludeOwnerKinds": ["Job"]}, 1, id="another-kind-of-owner"),
    ],
)
def test_arguments_select_the_workloads(args, count):
    assert len(names(balance(PLUGIN, nodes(2), replicas([3, 1]), args=args))) == count


def test_only_the_nodes_of_the_profile_are_compared():
    cluster, pods = nodes(3), replicas([4, 0, 0])
    assert len(names(balance(PLUGIN, cluster, pods))) == 2
    assert len(names(balance(PLUGIN, cluster, pods, profile_nodes=frozenset({"n1", "n2"})))) == 2
    assert names(balance(PLUGIN, cluster, pods, profile_nodes=frozenset({"n1"}))) == []


def test_the_reason_counts_and_the_note_says_who_has_no_second_node():
    result = balance(
        PLUGIN,
        nodes(2),
        [*replicas([3, 1]), *replicas([2], owner="api", nodeName="n1", nodeSelector={"kubernetes.io/hostname": "n1"})],
    )
    assert [decision.reason for decision in result.decisions] == [
        "node runs 3 of the 4 replicas of ReplicaSet ns/web, more than 2"
    ]
    assert result.notes == [
        "profile p: RemoveDuplicates: fewer than two nodes can run the duplicates of ReplicaSet ns/api"
    ]


def test_pods_with_ever_other_tolerations_do_not_make_a_round_long():
    pods = [
        pod(f"web-{number}", "n1", tolerations=[{"key": f"k{number}", "operator": "Exists"}]) for number in range(50)
    ]
    result = balance(PLUGIN, nodes(2), pods)
    assert len(evicted(result)) == 25


@pytest.mark.parametrize(
    ("args", "where"),
    [
        pytest.param({"excludeOwnerKind": []}, "excludeOwnerKind", id="unknown-field"),
        pytest.param({"namespaces": {"include": ["a"], "exclude": ["b"]}}, "namespaces", id="both-lists-of-namespaces"),
        pytest.param({"excludeOwnerKinds": [""]}, "excludeOwnerKinds.0", id="empty-kind"),
        pytest.param({"labelSelector": {}}, "labelSelector", id="a-field-of-another-plugin"),
    ],
)
def test_wrong_arguments_are_refused_by_path(args, where):
    with pytest.raises(ValidationError) as caught:
        RemoveDuplicatesArgs.model_validate(args)
    assert [".".join(map(str, error["loc"])) for error in caught.value.errors()] == [where]
