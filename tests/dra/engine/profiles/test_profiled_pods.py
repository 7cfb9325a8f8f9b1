"""What profiles make of a pod: fields in name order, and requests of batch pods."""

from copy import deepcopy

import pytest

from dra.engine.profiles.profiled_pods import profiled_pod
from tests.dra.engine.profiles.examples import (
    BATCH_CPU,
    BATCH_MEMORY,
    ENABLED,
    MANIFESTS,
    MANUAL,
    QOS,
    SKIP,
    container,
    evaluated,
    manifest,
    pod,
    profile,
    resolved,
)
from tests.violations import for_each_case

BATCH = {"qosClass": "BE", "priorityClassName": "koord-batch"}


def resources(made, field="containers"):
    return [each.get("resources", {}) for each in made["spec"][field]]


def test_the_profile_of_the_manual_makes_a_batch_pod():
    given = pod(
        container(requests={"cpu": "1", "memory": "3456Mi"}, limits={"cpu": "1", "memory": "3456Mi"}), labels=ENABLED
    )
    made = profiled_pod(given, resolved(manifest(MANUAL)), namespace_labels=ENABLED)
    amounts = {BATCH_CPU: "1000", BATCH_MEMORY: "3456Mi"}
    assert resources(made) == [{"requests": amounts, "limits": amounts}]
    assert made["metadata"]["labels"] == {
        **ENABLED,
        QOS: "BE",
        "koordinator.sh/priority": "1000",
        "koordinator.sh/mutated": "true",
    }
    assert made["metadata"]["annotations"] == {"koordinator.sh/intercepted": "true"}
    spec = made["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("koord-scheduler", "koord-batch")
    assert spec["terminationGracePeriodSeconds"] == 30
    assert "priority" not in spec, "admission computes it from the class"


@pytest.mark.parametrize("text", MANIFESTS, ids=["manual", "spark", "quick-start"])
def test_manifests_of_koordinator_are_applied_as_they_are(text):
    (outcome,) = evaluated(manifest(text)).outcomes
    assert outcome.reason[0] == "Applied"
    assert outcome.conflict_text == ""


@for_each_case(
    [
        pytest.param(
            container(requests={"cpu": "570m", "memory": "1Gi"}, limits={"cpu": "2", "memory": "2Gi"}),
            {
                "requests": {BATCH_CPU: "570", BATCH_MEMORY: "1Gi"},
                "limits": {BATCH_CPU: "2000", BATCH_MEMORY: "2Gi"},
            },
            id="vector-18-requests-below-limits",
        ),
        pytest.param(
            container(limits={"cpu": "500m"}),
            {"requests": {BATCH_CPU: "500"}, "limits": {BATCH_CPU: "500"}},
            id="a-limit-without-a-request-is-the-request-as-well",
        ),
        pytest.param(
            container(requests={"memory": "1Gi"}, limits={"cpu": "1"}),
            {"requests": {BATCH_CPU: "1000", BATCH_MEMORY: "1Gi"}, "limits": {BATCH_CPU: "1000"}},
            id="a-request-without-a-limit-stays-without",
        ),
        pytest.param(container(requests={"cpu": "1500u"}), {"requests": {BATCH_CPU: "2"}}, id="milli-cpus-round-up"),
        pytest.param(container(requests={"cpu": 0.1}), {"requests": {BATCH_CPU: "100"}}, id="a-number"),
        pytest.param(
            container(requests={"cpu": "2", BATCH_CPU: "300"}),
            {"requests": {BATCH_CPU: "300"}},
            id="an-amount-of-the-batch-resource-stays",
        ),
        pytest.param(
            container(limits={"nvidia.com/gpu": "1"}),
            {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
            id="other-resources-stay",
        ),
        pytest.param({"name": "main"}, {}, id="no-resources"),
    ]
)
def test_requests_of_batch_pods(given, wanted):
    made = profiled_pod(pod(given), resolved(profile(**BATCH)), namespace_labels={})
    assert resources(made) == [wanted]


def test_init_containers_and_sidecars_are_translated_as_well():
    native = {**container("native", requests={"cpu": "1"}), "restartPolicy": "Always"}
    given = pod(container(requests={"cpu": "1"}), initContainers=[container("init", limits={"cpu": "2"}), native])
    made = profiled_pod(given, resolved(profile(**BATCH)), namespace_labels={})
    assert resources(made, "initContainers") == [
        {"requests": {BATCH_CPU: "2000"}, "limits": {BATCH_CPU: "2000"}},
        {"requests": {BATCH_CPU: "1000"}},
    ]


@for_each_case(
    [
        pytest.param([profile(**BATCH)], {}, 0, True, id="class-of-the-profile"),
        pytest.param([profile(qosClass="BE")], {}, 0, True, id="best-effort-without-a-class"),
        pytest.param([profile(qosClass="BE", priorityClassName="koord-mid")], {}, 0, False, id="mid-stays"),
        pytest.param([profile(qosClass="BE", priorityClassName="koord-free")], {}, 0, False, id="free-stays"),
        pytest.param([profile(schedulerName="other")], {}, 0, False, id="a-scheduler-alone"),
        pytest.param([profile(schedulerName="other")], {}, 5000, True, id="a-batch-pod-that-any-profile-selects"),
        pytest.param(
            [profile(schedulerName="other")],
            {"koordinator.sh/priority-class": "koord-batch"},
            9500,
            True,
            id="the-label-of-the-class-before-the-number",
        ),
        pytest.param([], {QOS: "BE"}, 5500, False, id="a-batch-pod-that-no-profile-selects"),
        pytest.param([profile(**BATCH, own_annotations={SKIP: ""})], {}, 0, False, id="a-profile-that-skips-resources"),
        pytest.param(
            [profile("a", **BATCH), profile("b", own_annotations={SKIP: ""}, labels={"x": "y"})],
            {},
            0,
            False,
            id="one-of-two-profiles-skips-resources",
        ),
    ]
)
def test_which_pods_are_batch_pods(profiles, labels, priority, translated):
    given = pod(container(requests={"cpu": "1"}), labels=labels, priority=priority)
    made = profiled_pod(given, resolved(*profiles), namespace_labels={})
    assert (resources(made) == [{"requests": {BATCH_CPU: "1000"}}]) == translated


def test_the_last_profile_by_name_wins_whatever_the_order_of_creation():
    made = profiled_pod(
        pod(),
        resolved(profile("b", labels={"team": "b"}, schedulerName="b"), profile("a", labels={"team": "a", "a": "1"})),
        namespace_labels={},
    )
    assert made["metadata"]["labels"] == {"team": "b", "a": "1"}
    assert made["spec"]["schedulerName"] == "b"


def test_labels_of_the_profile_replace_those_of_the_pod():
    made = profiled_pod(pod(labels={QOS: "LS"}), resolved(profile(qosClass="BE")), namespace_labels={})
    assert made["metadata"]["labels"] == {QOS: "BE"}


def test_keys_are_copied_if_the_pod_has_them_and_lose_to_the_class():
    given = pod(labels={"app": "spark"})
    copying = profile(qosClass="BE", labelKeysMapping={"app": "copy", "absent": "empty", "copy": QOS})
    made = profiled_pod(given, resolved(copying), namespace_labels={})
    assert made["metadata"]["labels"] == {"app": "spark", "copy": "spark", QOS: "BE"}


@for_each_case(
    [
        pytest.param({}, {}, {}, True, id="no-selectors-select-all"),
        pytest.param({"selector": {"matchLabels": ENABLED}}, {}, ENABLED, True, id="pod-label"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": ENABLED}}, {}, ENABLED, False, id="the-namespace-needs-its-own"
        ),
        pytest.param({"namespaceSelector": {"matchLabels": ENABLED}}, ENABLED, {}, True, id="namespace-label"),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}},
            {},
            {},
            True,
            id="notin-selects-absent-labels",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, {}, {"a": ""}, True, id="exists"
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
            {},
            {"a": ""},
            False,
            id="does-not-exist",
        ),
        pytest.param({"probability": "0%"}, {}, {}, False, id="probability-zero"),
        pytest.param({"probability": 100}, {}, {}, True, id="probability-hundred"),
    ]
)
def test_selection(selectors, namespace_labels, labels, applies):
    profiles = evaluated(profile(schedulerName="s", **selectors)).profiles
    made = profiled_pod(pod(labels=labels), profiles, namespace_labels=namespace_labels)
    assert (made["spec"].get("schedulerName") == "s") == applies


def test_a_changed_pod_does_not_change_again():
    given = pod(container(requests={"cpu": "100m"}, limits={"cpu": "1"}), labels={"app": "x"})
    profiles = resolved(profile(**BATCH, labels={"a": "b"}, labelKeysMapping={"app": "copy"}))
    made = profiled_pod(given, profiles, namespace_labels={})
    assert profiled_pod(deepcopy(made), profiles, namespace_labels={}) == made


def test_a_mirror_of_a_static_pod_stays():
    given = pod(container(requests={"cpu": "1"}))
    given["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert profiled_pod(given, resolved(profile(**BATCH)), namespace_labels={}) == given
