"""RemoveFailedPods: pods in phase Failed, by age, reason, exit code and kind of owner."""

import pytest

from dra.engine.descheduling.plugins.failed_pods import RemoveFailedPods
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import NOW, at, node, pod
from tests.dra.engine.descheduling.plugins.playing import container, evicted, play, reasons, statuses
from tests.violations import for_each_case

NODES = [node("n1"), node("n2")]
ANY_AGE = {"minPodLifetimeSeconds": 0}
CONFIG_ERROR = "CreateContainerConfigError"


def failed(name="a", *containers, age=7200, on="n1", init=(), reason="", owner="web", metadata=None, labels=None):
    status = {"phase": "Failed", "reason": reason} | statuses(*containers, init=init)
    return pod(name, on, created=-age, status=status, owner=owner, metadata=metadata, labels=labels)


def ended(reason="", code=0):
    return container(terminated=reason, code=code)


@for_each_case(
    [
        pytest.param({}, [], [], id="no-pods"),
        pytest.param({}, [failed("a", ended("NodeAffinity"))], ["a"], id="ended-with-a-reason"),
        pytest.param({"exitCodes": [1]}, [failed("a", ended(code=1))], ["a"], id="exit-code"),
        pytest.param({"exitCodes": [1]}, [failed("a", ended("NodeAffinity", 1))], ["a"], id="exit-code-and-reason"),
        pytest.param({"exitCodes": [2]}, [failed("a", ended(code=1))], [], id="another-exit-code"),
        pytest.param(
            {"exitCodes": [1, 2, 3]},
            [failed("a", ended(code=1)), failed("b", ended(code=2))],
            ["a", "b"],
            id="one-of-the-exit-codes",
        ),
        pytest.param(
            {"exitCodes": [1]},
            [failed("a", ended(code=1)), failed("b", ended(code=2))],
            ["a"],
            id="only-the-listed-exit-code",
        ),
        pytest.param({"exitCodes": [0]}, [failed("a", container())], [], id="no-container-ended"),
        pytest.param({}, [failed("a", init=[ended("NodeAffinity")])], ["a"], id="init-container-ended"),
        pytest.param(
            {"exitCodes": [1], "includingInitContainers": True},
            [failed("a", init=[ended(code=1)])],
            ["a"],
            id="exit-code-of-an-init-container-included",
        ),
        pytest.param(
            {"exitCodes": [1]},
            [failed("a", init=[ended(code=1)])],
            [],
            id="exit-code-of-an-init-container-not-included",
        ),
        pytest.param(
            {"reasons": [CONFIG_ERROR], "includingInitContainers": True},
            [failed("a", init=[container(waiting=CONFIG_ERROR)])],
            ["a"],
            id="reason-of-an-init-container-included",
        ),
        pytest.param(
            {"reasons": [CONFIG_ERROR]},
            [failed("a", init=[container(waiting=CONFIG_ERROR)])],
            [],
            id="reason-of-an-init-container-not-included",
        ),
        pytest.param(
            {},
            [failed("a", ended(CONFIG_ERROR)), failed("b", ended(CONFIG_ERROR), on="n2")],
            ["a", "b"],
            id="two-nodes",
        ),
        pytest.param({"reasons": [CONFIG_ERROR]}, [failed("a", ended(CONFIG_ERROR))], ["a"], id="reason"),
        pytest.param(
            {"reasons": [CONFIG_ERROR, "NodeAffinity"]}, [failed("a", ended(CONFIG_ERROR))], ["a"], id="either"
        ),
        pytest.param({"reasons": [CONFIG_ERROR]}, [failed("a", ended("NodeAffinity"))], [], id="another-reason"),
        pytest.param({"reasons": [CONFIG_ERROR]}, [failed("a")], [], id="no-reason"),
        pytest.param({"reasons": ["Shutdown"]}, [failed("a", reason="Shutdown")], ["a"], id="reason-of-the-pod"),
        pytest.param({}, [failed("a", reason="Shutdown")], ["a"], id="shut-down-and-no-criterion"),
        pytest.param(
            {"reasons": ["Error"], "exitCodes": [1]},
            [failed("a", ended("Error", 2))],
            [],
            id="reason-and-code-are-both",
        ),
        pytest.param({"excludeOwnerKinds": ["ReplicaSet"]}, [failed("a", ended("Error"))], [], id="excluded-owner"),
        pytest.param({"excludeOwnerKinds": ["DaemonSet"]}, [failed("a", ended("Error"))], ["a"], id="another-owner"),
        pytest.param(
            {}, [failed("a", ended("Error"), metadata={"deletionTimestamp": at(-5)})], [], id="being-deleted-already"
        ),
        pytest.param({"namespaces": {"exclude": ["ns"]}}, [failed()], [], id="namespace-excluded"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "keep", "operator": "DoesNotExist"}]}},
            [failed("a", labels={"keep": ""}), failed("b")],
            ["b"],
            id="label",
        ),
        pytest.param(
            {}, [pod("a", created=-7200), pod("b", created=-7200, status={"phase": "Succeeded"})], [], id="not-failed"
        ),
    ],
)
def test_failed_pods_that_meet_all_criteria_go(args, pods, goes):
    assert evicted(play(RemoveFailedPods, ANY_AGE | args, NODES, pods)) == goes


@for_each_case(
    [
        pytest.param({}, 3599, 0.9, False, id="younger-than-an-hour-by-default"),
        pytest.param({}, 3600, 0.0, True, id="an-hour-by-default"),
        pytest.param({"minPodLifetimeSeconds": 3600}, 3600, 0.5, True, id="3600.5-of-3600"),
        pytest.param({"minPodLifetimeSeconds": 60}, 59, 0.0, False, id="younger"),
        pytest.param({"minPodLifetimeSeconds": 3600}, -60, 0.0, False, id="created-in-the-future"),
        pytest.param({"minPodLifetimeSeconds": None}, 60, 0.0, False, id="null-is-the-default"),
        pytest.param({"minPodLifetimeSeconds": 0}, 0, 0.0, True, id="0-is-any-age"),
    ]
)
def test_young_pods_stay(args, age, later, goes):
    assert bool(evicted(play(RemoveFailedPods, args, NODES, [failed(age=age)], now=NOW + later))) is goes


def test_a_failed_pod_needs_no_place_since_it_was_replaced_already():
    pods = [failed("a", ended("Error")), failed("bare", ended("Error"), owner="")]
    assert evicted(play(RemoveFailedPods, ANY_AGE, [node("n1"), node("n2", unschedulable=True)], pods)) == ["a", "bare"]


def test_the_reason_names_what_the_pod_failed_of():
    pods = [failed("a", ended("Error", 2)), failed("b", reason="Evicted"), failed("c")]
    assert reasons(play(RemoveFailedPods, ANY_AGE, NODES, pods)) == {
        "a": "failed (reason Error, exit code 2)",
        "b": "failed (reason Evicted)",
        "c": "failed",
    }


def test_limits_count_failed_pods():
    pods = [failed("a"), failed("b"), failed("c", on="n2")]
    assert evicted(play(RemoveFailedPods, ANY_AGE, NODES, pods, limits=Limits(per_node=1))) == ["a", "c"]
