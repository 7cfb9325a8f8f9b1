"""DeviceTaintRules, as kube-apiserver 1.37 has them."""

import pytest

from tests.localplane.kinds.registry_client import NOON, RegistryClient, refused

EARLIER = "2026-11-21T11:00:00Z"
NOW = "2026-11-21T12:00:00Z"
CONDITION = {
    "type": "EvictionInProgress",
    "status": "True",
    "reason": "PodsPendingEviction",
    "message": "1 pod",
    "lastTransitionTime": NOW,
}


def rule(*, effect="NoSchedule", added=None, **spec):
    taint = {"key": "example.com/service", "value": "fan", "effect": effect} | ({"timeAdded": added} if added else {})
    meta = {"name": "r"}
    spec = {"deviceSelector": {}, "taint": taint} | spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": meta, "spec": spec}


def selecting(**criteria):
    return rule(deviceSelector=criteria)


@pytest.mark.parametrize(
    ("obj", "causes"),
    [
        pytest.param(rule(), [], id="all-devices"),
        pytest.param(selecting(driver="gpu.example.com", pool="n1/a", device="gpu-0"), [], id="one-device"),
        pytest.param(selecting(driver=""), ["spec.deviceSelector.driver: Required value"], id="empty-driver"),
        pytest.param(selecting(pool=""), ["spec.deviceSelector.pool: Required value"], id="empty-pool"),
        pytest.param(rule(effect=""), ["spec.taint.effect: Required value"], id="no-effect"),
        pytest.param(
            rule(effect="Evict"),
            [
                'spec.taint.effect: Unsupported value: "Evict": supported values: "NoExecute", "NoSchedule", "None"',
            ],
            id="unknown-effect",
        ),
    ],
)
def test_what_a_rule_may_say(obj, causes):
    assert refused(RegistryClient().create, obj) == causes


def test_a_new_rule_has_no_status_and_a_time():
    made = RegistryClient().create(rule() | {"status": {"conditions": [CONDITION]}})
    assert made["status"] == {}
    assert made["spec"]["taint"]["timeAdded"] == NOW
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        pytest.param({"effect": "NoExecute"}, NOW, id="another-effect"),
        pytest.param({"value": "board"}, EARLIER, id="another-value"),
        pytest.param({"effect": "NoExecute", "timeAdded": "2026-11-21T11:30:00Z"}, "2026-11-21T11:30:00Z", id="a-time"),
    ],
)
def test_the_time_is_that_of_the_effect(changes, added):
    writing = RegistryClient()
    made = writing.create(rule(added=EARLIER))
    changed = writing.update(made, lambda obj: obj["spec"]["taint"].update(changes))
    assert changed["spec"]["taint"]["timeAdded"] == added
    assert changed["metadata"]["generation"] == 2


def test_the_status_has_eight_conditions_at_most():
    writing = RegistryClient()
    made = writing.create(rule())
    changed = writing.update(made, lambda obj: obj.update(status={"conditions": [CONDITION]}), "status")
    assert [each["type"] for each in changed["status"]["conditions"]] == ["EvictionInProgress"]
    many = [CONDITION | {"type": f"C{number}"} for number in range(9)]
    refusal = refused(writing.update, made, lambda obj: obj.update(status={"conditions": many}), "status")
    assert refusal == ["status.conditions: Too many: 9: must have at most 8 items"]


def test_the_line_of_a_rule():
    writing = RegistryClient()
    made = writing.create(rule(added=EARLIER))
    assert writing.table_cells(made, NOON) == {
        "Key": "example.com/service",
        "Value": "fan",
        "Effect": "NoSchedule",
        "Time Added": "60m",
        "Age": "0s",
    }
