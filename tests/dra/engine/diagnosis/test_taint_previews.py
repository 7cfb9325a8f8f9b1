"""Whom a DeviceTaintRule evicts is known before the rule is applied."""

from datetime import UTC, datetime

import msgspec
import pytest

from dra.engine.diagnosis.taint_previews import preview
from dra.model.taints import DeviceTaintRule
from tests.dra.engine.diagnosis.cluster_states import JOB, claim, cluster_state, entry, node, offer, pod

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
OWNED = {
    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}]
}
FOREVER = {"operator": "Exists", "effect": "NoExecute"}


def rule(selector, *, effect="NoExecute", **taint):
    spec = {"taint": {"key": "service", "effect": effect, **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return msgspec.convert({"metadata": {"name": "r", "resourceVersion": "1"}, "spec": spec}, DeviceTaintRule)


def held(name, device, *tolerations, listed=()):
    found = claim(name, device, listed=listed)
    found["status"]["allocation"]["devices"]["results"][0]["tolerations"] = list(tolerations)
    return found


def running(name, *claims, on="n1", **more):
    return pod(name, *claims, on=on, phase="Running", started=True, **more)


def seen(selector, *claims, pods=(), effect="NoExecute", **taint):
    nodes = [node("n1"), node("n2")]
    state = cluster_state(*claims, pods=tuple(pods), nodes=nodes, slices=[offer("n1"), offer("n2")])
    return preview(state, rule(selector, effect=effect, **taint), now=NOON)


@pytest.mark.parametrize(
    ("selector", "devices", "evicted"),
    [
        pytest.param({}, 4, ["a", "b"], id="an-empty-selector-selects-everything"),
        pytest.param({"pool": "n1"}, 2, ["a"], id="a-pool"),
        pytest.param({"pool": "n1", "device": "gpu-1"}, 1, [], id="a-device-that-nobody-holds"),
        pytest.param({"driver": "other"}, 0, [], id="another-driver"),
        pytest.param(None, 0, [], id="without-a-selector-nothing-is-selected"),
        pytest.param({"deviceClassName": "x"}, 0, [], id="criteria-of-an-old-version"),
    ],
)
def test_the_devices_and_pods_of_a_selector(selector, devices, evicted):
    claims = (held("c", "n1/gpu-0", listed=(entry("a"),)), held("d", "n2/gpu-0", listed=(JOB,)))
    found = seen(selector, *claims, pods=[running("a", "c"), running("b", "d", on="n2")])
    assert (found.devices, [each.pod[1] for each in found.evictions]) == (devices, evicted)
    assert found.selects_all == (selector == {})
    assert found.is_void == (selector is None or "deviceClassName" in selector)


@pytest.mark.parametrize(
    ("tolerations", "taint", "seconds"),
    [
        pytest.param((), {}, [0], id="not-tolerated"),
        pytest.param(({**FOREVER, "tolerationSeconds": 300},), {}, [300], id="tolerated-for-a-while"),
        pytest.param((FOREVER,), {}, [], id="tolerated-for-ever"),
        pytest.param((), {"effect": "NoSchedule"}, [], id="an-effect-that-evicts-nobody"),
        pytest.param((), {"effect": "None"}, [], id="no-effect"),
        pytest.param(
            ({**FOREVER, "tolerationSeconds": 300},),
            {"timeAdded": "2026-11-20T11:58:00Z"},
            [180],
            id="a-rule-with-a-time",
        ),
    ],
)
def test_when_a_pod_is_evicted(tolerations, taint, seconds):
    found = seen({}, held("c", "n1/gpu-0", *tolerations), pods=[running("a", "c")], **taint)
    assert [each.seconds for each in found.evictions] == seconds


def test_the_earliest_of_several_claims_ends_a_pod_and_its_controller_is_named():
    claims = (held("c", "n1/gpu-0", {**FOREVER, "tolerationSeconds": 300}), held("d", "n1/gpu-1"))
    found = seen({}, *claims, pods=[running("a", "c", "d", metadata=OWNED)])
    assert [(each.claim, each.seconds, each.owner) for each in found.evictions] == [("d", 0, "job train")]
    assert found.held == 2


@pytest.mark.parametrize(
    "one_pod",
    [
        pytest.param(pod("a", "c"), id="a-pod-that-waits"),
        pytest.param(running("a", "c", metadata={"deletionTimestamp": "2026-11-20T11:00:00Z"}), id="a-pod-that-ends"),
        pytest.param(pod("a", "c", on="n1", phase="Succeeded"), id="a-pod-that-has-ended"),
    ],
)
def test_a_pod_that_does_not_run_is_not_evicted(one_pod):
    assert seen({}, held("c", "n1/gpu-0"), pods=[one_pod]).evictions == ()
