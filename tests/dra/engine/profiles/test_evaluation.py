"""What becomes of each profile: applied, in conflict, or why no policy can apply it."""

import pytest

from dra.engine.profiles.evaluation import evaluate
from tests.dra.engine.profiles.examples import ENABLED, QOS, evaluated, profile
from tests.violations import for_each_case

EVICTABLE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@for_each_case(
    [
        pytest.param(profile(probability="30%"), "Unsupported", "spec.probability", id="a-share-of-the-pods"),
        pytest.param(profile(probability=50), "Unsupported", "spec.probability", id="a-share-as-a-number"),
        pytest.param(profile(probability=0), "Disabled", "probability is 0", id="no-pods"),
        pytest.param(
            profile(patch={"spec": {"hostPID": True}}), "Unsupported", "spec.patch.spec.hostPID", id="patch-host-pid"
        ),
        pytest.param(
            profile(patch={"spec": {"tolerations": []}}), "Unsupported", "spec.tolerations", id="patch-tolerations"
        ),
        pytest.param(profile(patch={"status": {}}), "Unsupported", "spec.patch.status", id="patch-status"),
        pytest.param(
            profile(patch={"metadata": {"labels": {"a": None}}}), "Unsupported", "removals", id="patch-removes-a-label"
        ),
        pytest.param(
            profile(patch={"metadata": {"finalizers": []}}), "Unsupported", "metadata.finalizers", id="patch-finalizers"
        ),
        pytest.param(
            profile(patch={"spec": {"terminationGracePeriodSeconds": "30"}}), "Unsupported", "seconds", id="patch-text"
        ),
        pytest.param(profile(labelSuffixes={"a": "b"}), "Unsupported", "labelSuffixes", id="field-of-a-later-version"),
        pytest.param(profile(priorityClassName="absent"), "PriorityClassNotFound", "absent", id="class-is-absent"),
        pytest.param(
            profile(priorityClassName="system-node-critical"), "Unsupported", "of the system", id="class-of-the-system"
        ),
        pytest.param(profile(labels={"a/b/c": "x"}), "Unsupported", "spec.labels[a/b/c]", id="no-key"),
        pytest.param(profile(labels={"a": "x y"}), "Unsupported", "no value of a label", id="no-value"),
        pytest.param(
            profile(labels={"reserve.dra/claim": "x"}), "Unsupported", "dra-reserve's own", id="key-of-dra-reserve"
        ),
        pytest.param(
            profile(annotations={"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}),
            "Unsupported",
            "Kubernetes'",
            id="key-of-kubernetes",
        ),
        pytest.param(
            profile(labelKeysMapping={"app": "pod-security.kubernetes.io/x"}),
            "Unsupported",
            "labelKeysMapping",
            id="copy-to-a-key-of-kubernetes",
        ),
        pytest.param(profile(koordinatorPriority=-1), "Unsupported", "value of a label", id="negative-priority"),
        pytest.param(profile(schedulerName="A b"), "Unsupported", "is no name", id="name-of-a-scheduler"),
        pytest.param(profile(annotations={"a": "x" * 1025}), "Unsupported", "longer", id="long-annotation"),
        pytest.param(profile(labels={f"l{n}": "" for n in range(33)}), "Unsupported", "33 entries", id="many-labels"),
        pytest.param(
            profile(selector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "Unsupported",
            "operator In has 0 values",
            id="in-without-values",
        ),
        pytest.param(
            profile(selector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
            "Invalid",
            "operator",
            id="unknown-operator",
        ),
        pytest.param(profile(qosClass="be"), "Invalid", "qosClass", id="unknown-class"),
        pytest.param(profile(annotations={EVICTABLE: "true"}), "Applied", "", id="key-of-the-autoscaler"),
        pytest.param(profile(annotations={"a": "it's\n'}] + [JSONPatch{"}), "Applied", "", id="text-of-an-expression"),
    ],
)
def test_the_outcome_of_a_profile(given, reason, text):
    (outcome,) = evaluated(given).outcomes
    assert outcome.reason[0] == reason
    assert text in outcome.reason[1]
    assert (outcome.applied is not None) == (reason == "Applied")


def test_a_missing_class_of_koordinator_is_told_with_its_values():
    (outcome,) = evaluate([profile(priorityClassName="koord-batch")], priorities={}).outcomes
    assert outcome.reason[1].endswith("until PriorityClass koord-batch exists; its value is 5000 to 5999")


@for_each_case(
    [
        pytest.param({"qosClass": "BE"}, {"qosClass": "LS"}, f"metadata.labels[{QOS}]", id="qos-class"),
        pytest.param({"schedulerName": "x"}, {"schedulerName": "y"}, "spec.schedulerName", id="scheduler"),
        pytest.param({"labels": {"t": "1"}}, {"labels": {"t": "2"}}, "metadata.labels[t]", id="label"),
        pytest.param(
            {"labels": {"t": "1"}}, {"patch": {"metadata": {"labels": {"t": "2"}}}}, "metadata.labels[t]", id="patch"
        ),
        pytest.param({"qosClass": "BE"}, {"qosClass": "BE"}, "", id="the-same-value"),
        pytest.param({"qosClass": "BE"}, {"schedulerName": "x"}, "", id="different-fields"),
        pytest.param(
            {"qosClass": "BE", "selector": {"matchLabels": {"a": "1"}}},
            {"qosClass": "LS", "selector": {"matchLabels": {"a": "2"}}},
            "",
            id="disjoint-pods",
        ),
        pytest.param(
            {"qosClass": "BE", "namespaceSelector": {"matchLabels": ENABLED}},
            {
                "qosClass": "LS",
                "namespaceSelector": {"matchExpressions": [{"key": next(iter(ENABLED)), "operator": "DoesNotExist"}]},
            },
            "",
            id="disjoint-namespaces",
        ),
        pytest.param(
            {"qosClass": "BE", "selector": {"matchLabels": {"a": "1"}}},
            {"qosClass": "LS", "selector": {"matchLabels": {"b": "2"}}},
            f"metadata.labels[{QOS}]",
            id="labels-that-one-pod-can-have-both",
        ),
    ]
)
def test_conflicts_are_named_on_both_profiles(one, other, field):
    found = evaluated(profile("b", **other), profile("a", **one))
    texts = [each.conflict_text for each in found.outcomes]
    assert [each.name for each in found.outcomes] == ["a", "b"]
    assert texts == ([f"{field} is set differently by a and b: b wins"] * 2 if field else ["", ""])


def test_a_profile_that_cannot_be_read_hides_no_other():
    found = evaluated(profile("a", qosClass=7), profile("b", schedulerName="s"))
    assert [each.reason[0] for each in found.outcomes] == ["Invalid", "Applied"]
    assert [each.name for each in found.profiles] == ["b"]


def test_profiles_beyond_the_room_of_the_policy_say_so():
    found = evaluate([profile(f"p{n:03}", schedulerName="s") for n in range(70)], priorities={})
    assert len(found.profiles) == 64
    assert found.outcomes[64].reason[0] == "TooManyProfiles"
