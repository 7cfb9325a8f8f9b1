"""PodLifeTime: ages, states, conditions and exit codes, all of which must be met; the oldest pod goes first."""

import pytest

from dra.engine.descheduling.plugins.pod_life_time import PodLifeTime
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.clusters import NOW, at, node, pod
from tests.dra.engine.descheduling.plugins.playing import container, evicted, play, reasons, refused, statuses
from tests.violations import for_each_case

NODES = [node("n1", cpu="32"), node("n2", cpu="32")]
MAX_600 = {"maxPodLifeTimeSeconds": 600}


def aged(name, age, **more):
    return pod(name, cpu="100m", created=-age, **more)


def condition(kind="Ready", status="True", reason="", age=None):
    changed = {} if age is None else {"lastTransitionTime": at(-age)}
    return {"type": kind, "status": status, "reason": reason, **changed}


@for_each_case(
    [
        pytest.param(600, 601, 0.0, True, id="older"),
        pytest.param(600, 600, 0.0, False, id="as-old-as-allowed"),
        pytest.param(600, 605, 0.0, True, id="605-of-600"),
        pytest.param(600, 595, 0.0, False, id="595-of-600"),
        pytest.param(600, 600, 0.9, False, id="fractions-of-a-second-do-not-count"),
        pytest.param(0, 1, 0.5, True, id="max-0-and-1.5-seconds-old"),
        pytest.param(0, 0, 0.5, False, id="max-0-and-half-a-second-old"),
        pytest.param(600, -60, 0.0, False, id="created-in-the-future"),
        pytest.param(0, -60, 0.0, False, id="created-in-the-future-with-max-0"),
    ]
)
def test_a_pod_goes_once_it_is_older_than_the_maximum_in_whole_seconds(maximum, age, later, goes):
    result = play(PodLifeTime, {"maxPodLifeTimeSeconds": maximum}, NODES, [aged("a", age)], now=NOW + later)
    assert evicted(result) == (["a"] if goes else [])


OLD = 3600
PENDING = {"phase": "Pending"}


@for_each_case(
    [
        pytest.param({"states": ["Pending"], **MAX_600}, PENDING, True, id="pending"),
        pytest.param({"states": ["Pending"], **MAX_600}, {"phase": "Running"}, False, id="running-is-not-pending"),
        pytest.param({"states": ["Succeeded"], **MAX_600}, {"phase": "Succeeded"}, True, id="succeeded"),
        pytest.param({"states": ["Failed"], **MAX_600}, {"phase": "Failed"}, True, id="failed"),
        pytest.param({"states": ["Unknown"], **MAX_600}, {"phase": "Unknown"}, True, id="unknown"),
        *(
            pytest.param(
                {"states": [reason], **MAX_600}, PENDING | statuses(container(waiting=reason)), True, id=reason
            )
            for reason in (
                "ContainerCreating",
                "PodInitializing",
                "ImagePullBackOff",
                "CrashLoopBackOff",
                "CreateContainerConfigError",
                "ErrImagePull",
                "CreateContainerError",
                "InvalidImageName",
            )
        ),
        pytest.param(
            {"states": ["ImagePullBackOff"], **MAX_600},
            PENDING | statuses(container(waiting="CrashLoopBackOff")),
            False,
            id="another-waiting-reason",
        ),
        pytest.param(
            {"states": ["CreateContainerError"], **MAX_600},
            PENDING | statuses(container(), container(waiting="CreateContainerError")),
            True,
            id="the-second-container-waits",
        ),
        pytest.param(
            {"states": ["NodeAffinity"]},
            {"phase": "Failed"} | statuses(container(terminated="NodeAffinity")),
            True,
            id="reason-of-an-ended-container",
        ),
        pytest.param({"states": ["Shutdown"]}, {"phase": "Failed", "reason": "Shutdown"}, True, id="reason-of-the-pod"),
        *(
            pytest.param(
                {"states": ["OOMKilled"], **extra},
                statuses(**{kind: [container(terminated="OOMKilled")]}),
                goes,
                id=name,
            )
            for kind, extra, goes, name in (
                ("init", {"includingInitContainers": True}, True, "init-container-included"),
                ("init", {}, False, "init-container-not-included"),
                ("init", {"includingEphemeralContainers": True}, False, "ephemeral-does-not-include-init"),
                ("ephemeral", {"includingEphemeralContainers": True}, True, "ephemeral-container-included"),
                ("ephemeral", {}, False, "ephemeral-container-not-included"),
            )
        ),
        pytest.param(
            {"states": ["ImagePullBackOff"], "includingInitContainers": True},
            PENDING | statuses(init=[container(waiting="ImagePullBackOff")]),
            True,
            id="init-container-waits",
        ),
    ],
)
def test_one_of_the_states_must_be_met(args, status, goes):
    assert evicted(play(PodLifeTime, args, NODES, [aged("a", OLD, status=status)])) == (["a"] if goes else [])


@for_each_case(
    [
        pytest.param(
            {"reason": "PodCompleted", "status": "True"},
            [condition("Initialized", reason="PodCompleted")],
            True,
            id="reason-and-status",
        ),
        pytest.param(
            {"reason": "PodCompleted", "status": "True"}, [condition("Initialized", reason="Other")], False, id="reason"
        ),
        pytest.param({"type": "Ready"}, [condition("Ready", "False")], True, id="type-alone-matches-any-status"),
        pytest.param({"type": "Ready"}, [condition("Initialized")], False, id="another-type"),
        pytest.param(
            {"reason": "PodCompleted", "status": "True"},
            [condition("Ready", "False", "PodCompleted"), condition("Initialized", "True", "Other")],
            False,
            id="two-conditions-do-not-add-up",
        ),
        pytest.param(
            {"minTimeSinceLastTransitionSeconds": 300}, [condition(age=301), condition(age=2)], True, id="one-is-old"
        ),
        pytest.param({"minTimeSinceLastTransitionSeconds": 14400}, [condition(age=60)], False, id="recent"),
        pytest.param(
            {"reason": "PodCompleted", "minTimeSinceLastTransitionSeconds": 300},
            [condition(reason="PodCompleted", age=9), condition(reason="Other", age=999)],
            False,
            id="the-time-is-that-of-the-condition-that-matches",
        ),
        pytest.param({"minTimeSinceLastTransitionSeconds": 300}, [], False, id="no-conditions"),
        pytest.param({"minTimeSinceLastTransitionSeconds": 0}, [condition()], False, id="no-transition-time"),
        pytest.param({"minTimeSinceLastTransitionSeconds": 0}, [condition(age=-60)], False, id="from-the-future"),
        pytest.param(
            {"minTimeSinceLastTransitionSeconds": 0},
            [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}],
            False,
            id="a-time-that-is-none",
        ),
    ]
)
def test_one_of_the_conditions_must_be_met(wanted, conditions, goes):
    given = aged("a", OLD, status={"conditions": conditions})
    assert evicted(play(PodLifeTime, {"conditions": [wanted]}, NODES, [given])) == (["a"] if goes else [])


@pytest.mark.parametrize(("later", "goes"), [pytest.param(0.4, True, id="60.4"), pytest.param(-0.1, False, id="59.9")])
def test_a_condition_must_be_as_old_as_the_minimum_in_whole_seconds(later, goes):
    given = aged("a", OLD, status={"conditions": [condition(age=60)]})
    args = {"conditions": [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 60}]}
    assert bool(evicted(play(PodLifeTime, args, NODES, [given], now=NOW + later))) is goes


@pytest.mark.parametrize(
    ("args", "given", "goes"),
    [
        pytest.param({"exitCodes": [1]}, statuses(container(terminated="Error", code=1)), True, id="code"),
        pytest.param({"exitCodes": [2]}, statuses(container(terminated="Error", code=1)), False, id="another-code"),
        pytest.param({"exitCodes": [0]}, statuses(container()), False, id="a-running-container-has-no-exit-code"),
        pytest.param({"exitCodes": [1]}, statuses(init=[container(terminated="", code=1)]), False, id="init"),
        pytest.param(
            {"exitCodes": [1], "includingInitContainers": True},
            statuses(init=[container(terminated="", code=1)]),
            True,
            id="init-included",
        ),
        pytest.param(
            {"exitCodes": [1], "includingEphemeralContainers": True},
            statuses(ephemeral=[container(terminated="", code=1)]),
            False,
            id="ephemeral-containers-have-states-only",
        ),
    ],
)
def test_one_of_the_exit_codes_must_be_met(args, given, goes):
    assert bool(evicted(play(PodLifeTime, args, NODES, [aged("a", OLD, status=given)]))) is goes


@pytest.mark.parametrize(
    ("kinds", "goes"),
    [
        pytest.param({"exclude": ["Job"]}, ["of-set", "bare"], id="excluded"),
        pytest.param({"include": ["Job"]}, ["of-job"], id="included"),
        pytest.param({"include": ["ReplicaSet", "Job"]}, ["of-job", "of-set"], id="both"),
        pytest.param({}, ["of-job", "of-set", "bare"], id="none-named"),
    ],
)
def test_kinds_of_owners(kinds, goes):
    job = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}]}
    failed = {"phase": "Failed"}
    pods = [
        aged("of-job", 900, metadata=job, status=failed),
        aged("of-set", 800, status=failed),
        aged("bare", 700, owner="", status=failed),
    ]
    assert evicted(play(PodLifeTime, {"states": ["Failed"], "ownerKinds": kinds}, NODES, pods)) == goes


def test_all_criteria_must_be_met_and_the_reason_says_so():
    args = {"maxPodLifeTimeSeconds": 600, "states": ["Pending", "CrashLoopBackOff"], "exitCodes": [1, 137]}
    crashed = statuses(container(waiting="CrashLoopBackOff"), container(terminated="Error", code=137))
    pods = [
        aged("young", 60, status=crashed),
        aged("running", 900, status=statuses(container(terminated="Error", code=137))),
        aged("without-code", 900, status=statuses(container(waiting="CrashLoopBackOff"))),
        aged("all", 900, status=crashed),
    ]
    result = play(PodLifeTime, args, NODES, pods)
    assert reasons(result) == {
        "all": "900 s old, more than maxPodLifeTimeSeconds 600 and in state CrashLoopBackOff and exit code 137"
    }


def test_a_met_condition_is_named_in_the_reason():
    given = aged("a", OLD, status={"conditions": [condition("Ready", "False", "ContainersNotReady")]})
    result = play(PodLifeTime, {"conditions": [{"type": "Ready", "status": "False"}]}, NODES, [given])
    assert reasons(result) == {"a": "condition Ready is False (ContainersNotReady)"}


@pytest.mark.parametrize(
    ("limits", "goes"),
    [
        pytest.param(Limits(), ["oldest", "old", "third"], id="none"),
        pytest.param(Limits(total=1), ["oldest"], id="total"),
        pytest.param(Limits(per_namespace=1), ["oldest"], id="namespace"),
        pytest.param(Limits(per_node=1), ["oldest", "third"], id="node"),
        pytest.param(Limits(total=0), [], id="0-is-nobody"),
    ],
)
def test_the_oldest_pods_of_all_nodes_go_first(limits, goes):
    pods = [aged("third", 700, on="n2"), aged("old", 800), aged("oldest", 900), aged("young", 60)]
    assert evicted(play(PodLifeTime, MAX_600, NODES, pods, limits=limits)) == goes


def test_pods_that_are_being_deleted_stay():
    leaving = {"deletionTimestamp": at(-5)}
    assert evicted(play(PodLifeTime, MAX_600, NODES, [aged("a", OLD, metadata=leaving)])) == []


def test_only_pods_with_the_labels_and_of_the_namespaces_go():
    pods = [aged("a", OLD, labels={"foo": "bar"}), aged("b", OLD, labels={"foo": "other"}), aged("c", OLD)]
    assert evicted(play(PodLifeTime, {**MAX_600, "labelSelector": {"matchLabels": {"foo": "bar"}}}, NODES, pods)) == [
        "a"
    ]
    other = [aged("a", OLD, namespace="x"), aged("b", OLD)]
    assert evicted(play(PodLifeTime, {**MAX_600, "namespaces": {"include": ["x"]}}, NODES, other)) == ["a"]
    assert evicted(play(PodLifeTime, {**MAX_600, "namespaces": {"exclude": ["x"]}}, NODES, other)) == ["b"]


def test_pods_that_have_ended_and_bare_pods_need_no_place():
    alone = [node("n1", cpu="32"), node("n2", unschedulable=True)]
    ended = aged("ended", 900, status={"phase": "Succeeded"})
    bare, running = aged("bare", 800, owner=""), aged("running", 700)
    result = play(PodLifeTime, MAX_600, alone, [ended, bare, running])
    assert evicted(result) == ["ended", "bare"]
    assert refused(result) == {"running": "NoPlace"}


def test_a_pod_that_still_pulls_its_image_stays_while_another_of_its_workload_is_terminating():
    creating = PENDING | statuses(container(waiting="ContainerCreating"))
    pods = [
        aged("leaving", 9000, metadata={"deletionTimestamp": at(-5)}, status=creating),
        aged("replacement", 700, status=creating),
        aged("of-another-workload", 700, owner="db", status=creating),
    ]
    result = play(PodLifeTime, {"states": ["ContainerCreating"], **MAX_600}, NODES, pods)
    assert evicted(result) == ["of-another-workload"]
    assert result.notes == [
        "profile p: PodLifeTime: pending pods that stay until terminating pods of their workloads are gone: 1"
    ]


def test_a_bare_pod_does_not_wait_for_another_one():
    leaving = {"deletionTimestamp": at(-5)}
    pods = [aged("leaving", 9000, owner="", metadata=leaving), aged("pending", 700, owner="", status=PENDING)]
    assert evicted(play(PodLifeTime, MAX_600, NODES, pods)) == ["pending"]


def test_pods_without_a_node_and_pods_on_nodes_that_are_not_ready_stay():
    nodes = [*NODES, node("lost", cpu="32", ready=False)]
    pods = [aged("pending", OLD, on=""), aged("lost", OLD, on="lost"), aged("elsewhere", OLD, on="unknown")]
    assert evicted(play(PodLifeTime, MAX_600, nodes, pods)) == []
