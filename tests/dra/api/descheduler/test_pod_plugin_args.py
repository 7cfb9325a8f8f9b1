"""Arguments of the plugins that look at pods one by one: what is refused, by path and with what to do."""

import pytest
from pydantic import ValidationError

from dra.api.descheduler import pod_plugin_args as args
from dra.api.parameters.opaque import validation_message
from tests.violations import combinations, for_each_case

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SMALLEST = {
    args.PodLifeTimeArgs: {"maxPodLifeTimeSeconds": 600},
    args.RemoveFailedPodsArgs: {},
    args.RemovePodsHavingTooManyRestartsArgs: {"podRestartThreshold": 1},
    args.RemovePodsViolatingInterPodAntiAffinityArgs: {},
    args.RemovePodsViolatingNodeAffinityArgs: {"nodeAffinityType": [REQUIRED]},
    args.RemovePodsViolatingNodeTaintsArgs: {},
    args.RemovePodsViolatingNodeReservationArgs: {},
}
ALL = [pytest.param(model, id=model.__name__.removesuffix("Args")) for model in SMALLEST]


def parse(model, given):
    return model.model_validate(given, by_alias=True, by_name=False)


def refusal(model, given):
    with pytest.raises(ValidationError) as caught:
        parse(model, given)
    return validation_message(caught.value, model, root="args")


@for_each_case(ALL)
def test_the_smallest_arguments_are_accepted(model):
    assert parse(model, SMALLEST[model]).namespaces.selects("any")


@for_each_case(
    combinations(
        ALL,
        [
            pytest.param({"nodeFit": True}, "args.nodeFit: unknown field; known are ", id="unknown-field"),
            pytest.param(
                {"namespaces": {"include": ["a"], "exclude": ["b"]}},
                "args.namespaces: give include or exclude, not both",
                id="both-lists-of-namespaces",
            ),
            pytest.param(
                {"namespaces": {"include": ["kube-*"]}},
                "args.namespaces.include[0]: 'kube-*' is not the name of a namespace; write names in full",
                id="a-pattern-of-namespaces",
            ),
            pytest.param(
                {"namespaces": {"includes": ["a"]}},
                "args.namespaces.includes: unknown field; did you mean include?",
                id="unknown-field-of-namespaces",
            ),
            pytest.param(
                {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}},
                "args.labelSelector.matchExpressions[0].operator: input should be 'In', 'NotIn', 'Exists'",
                id="unknown-operator",
            ),
            pytest.param(
                {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                "operator In needs values",
                id="operator-without-values",
            ),
            pytest.param(
                {"labelSelector": {"matchLabels": {"a b": "c"}}}, "is not a valid label key", id="wrong-label"
            ),
        ],
    )
)
def test_wrong_selections_are_refused(model, more, text):
    assert text in refusal(model, SMALLEST[model] | more)


@for_each_case(ALL)
def test_a_null_counts_as_an_absent_field(model):
    given = dict.fromkeys(("namespaces", "labelSelector")) | SMALLEST[model]
    assert parse(model, given) == parse(model, SMALLEST[model])


@for_each_case(
    [
        pytest.param(
            args.PodLifeTimeArgs,
            {},
            "every pod would be evicted; give at least one of maxPodLifeTimeSeconds, states, conditions, exitCodes",
            id="no-criterion",
        ),
        pytest.param(
            args.PodLifeTimeArgs,
            {"states": [], "conditions": [], "exitCodes": [], "ownerKinds": {"include": ["Job"]}},
            "every pod would be evicted",
            id="empty-criteria-and-a-selection",
        ),
        pytest.param(
            args.PodLifeTimeArgs,
            {"states": ["Pending", "Runing"]},
            "args.states[1]: 'Runing' is not a state; known are Running, Pending, Succeeded",
            id="unknown-state",
        ),
        pytest.param(
            args.PodLifeTimeArgs,
            {"podStatusPhases": ["Pending"], "maxPodLifeTimeSeconds": 600},
            "args.podStatusPhases: unknown field; known are conditions, exitCodes",
            id="name-of-an-older-version",
        ),
        pytest.param(
            args.PodLifeTimeArgs,
            {"conditions": [{}]},
            "args.conditions[0]: give at least one of type, status, reason, minTimeSinceLastTransitionSeconds",
            id="condition-without-a-field",
        ),
        pytest.param(
            args.PodLifeTimeArgs,
            {"conditions": [{"type": None}]},
            "args.conditions[0]: give at least one of",
            id="condition-with-nulls-only",
        ),
        pytest.param(
            args.PodLifeTimeArgs,
            {"maxPodLifeTimeSeconds": 1, "ownerKinds": {"include": ["Job"], "exclude": ["Job"]}},
            "args.ownerKinds: give include or exclude, not both",
            id="both-lists-of-owner-kinds",
        ),
        pytest.param(
            args.PodLifeTimeArgs, {"maxPodLifeTimeSeconds": -1}, "args.maxPodLifeTimeSeconds: ", id="negative-age"
        ),
        pytest.param(
            args.PodLifeTimeArgs, {"maxPodLifeTimeSeconds": "600"}, "args.maxPodLifeTimeSeconds: ", id="age-as-a-text"
        ),
        pytest.param(
            args.PodLifeTimeArgs, {"exitCodes": [2**31]}, "args.exitCodes[0]: ", id="exit-code-beyond-32-bits"
        ),
        pytest.param(
            args.RemoveFailedPodsArgs,
            {"minPodLifetimeSeconds": 1.5},
            "args.minPodLifetimeSeconds: ",
            id="age-as-fraction",
        ),
        pytest.param(args.RemoveFailedPodsArgs, {"reasons": [""]}, "args.reasons[0]: ", id="empty-reason"),
        pytest.param(
            args.RemovePodsHavingTooManyRestartsArgs, {}, "args.podRestartThreshold: required", id="no-threshold"
        ),
        pytest.param(
            args.RemovePodsHavingTooManyRestartsArgs,
            {"podRestartThreshold": 0},
            "args.podRestartThreshold: input should be greater than or equal to 1",
            id="threshold-0",
        ),
        pytest.param(
            args.RemovePodsHavingTooManyRestartsArgs,
            {"podRestartThreshold": True},
            "args.podRestartThreshold: ",
            id="threshold-true",
        ),
        pytest.param(
            args.RemovePodsHavingTooManyRestartsArgs,
            {"podRestartThreshold": 1, "states": ["Pending"]},
            "args.states[0]: input should be 'Running' or 'CrashLoopBackOff', not 'Pending'",
            id="state-that-has-no-restarts",
        ),
        pytest.param(
            args.RemovePodsHavingTooManyRestartsArgs,
            {"podRestartThreshold": 1, "includingInitContainers": "yes"},
            "args.includingInitContainers: ",
            id="truth-as-a-text",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeAffinityArgs, {}, "args.nodeAffinityType: required", id="no-node-affinity-type"
        ),
        pytest.param(
            args.RemovePodsViolatingNodeAffinityArgs,
            {"nodeAffinityType": []},
            "args.nodeAffinityType: no pod would be evicted; name at least one of",
            id="empty-node-affinity-types",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeAffinityArgs,
            {"nodeAffinityType": ["requiredDuringSchedulingRequiredDuringExecution"]},
            "args.nodeAffinityType[0]: input should be 'requiredDuringSchedulingIgnoredDuringExecution' or ",
            id="unknown-node-affinity-type",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeTaintsArgs,
            {"includedTaints": []},
            "args.includedTaints: no taint would count; name the taints that count, or leave the field out for all",
            id="no-included-taint",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeTaintsArgs,
            {"includedTaints": ["a"], "excludedTaints": ["b"]},
            "give includedTaints or excludedTaints, not both",
            id="both-lists-of-taints",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeTaintsArgs,
            {"excludedTaints": ["dedicated=gpu:NoSchedule"]},
            "args.excludedTaints[0]: 'dedicated=gpu:NoSchedule' is not a taint; write KEY or KEY=VALUE",
            id="taint-with-an-effect",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeTaintsArgs,
            {"excludedTaints": ["node.kubernetes.io/*"]},
            "args.excludedTaints[0]: 'node.kubernetes.io/*' is not a taint",
            id="pattern-of-taints",
        ),
        pytest.param(
            args.RemovePodsViolatingNodeTaintsArgs,
            {"excludedTaints": ["a="]},
            "is not a taint",
            id="taint-without-value",
        ),
    ],
)
def test_arguments_that_would_do_something_else_are_refused(model, given, text):
    assert text in refusal(model, given)


STATES = """
Running Pending Succeeded Failed Unknown NodeAffinity NodeLost Shutdown UnexpectedAdmissionError PodInitializing
ContainerCreating ImagePullBackOff CrashLoopBackOff CreateContainerConfigError ErrImagePull CreateContainerError
InvalidImageName OOMKilled Error Completed DeadlineExceeded Evicted ContainerCannotRun StartError
"""


@for_each_case(STATES.split())
def test_every_state_of_the_communitys_descheduler_is_known(state):
    assert parse(args.PodLifeTimeArgs, {"states": [state]}).states == (state,)


def test_defaults():
    assert parse(args.RemoveFailedPodsArgs, {}).min_pod_lifetime_seconds == 3600
    taints = parse(args.RemovePodsViolatingNodeTaintsArgs, {})
    assert (taints.include_prefer_no_schedule, taints.included_taints, taints.excluded_taints) == (False, None, ())


@pytest.mark.parametrize(
    "taint", ["dedicated", "node.kubernetes.io/unschedulable", "dedicated=gpu", "example.com/pool=a.b_c"]
)
def test_taints_by_key_and_by_value(taint):
    assert parse(args.RemovePodsViolatingNodeTaintsArgs, {"excludedTaints": [taint]}).excluded_taints == (taint,)
