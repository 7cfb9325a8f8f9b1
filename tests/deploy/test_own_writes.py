"""What the accounts of dra-reserve may write, by the policies that limit them: what they do, and nothing else.

A stolen token of the controller changed images in kube-system and made privileged pods. That the accounts can do their
work under these policies is shown by all scenarios; a real API server judges the same rows in
tests/scenarios/test_own_writes.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from dra.api.colocation.well_known import BATCH_CPU, BATCH_MEMORY
from dra.api.koordinator.well_known import ANNOTATION_DEVICE_ALLOCATED, ANNOTATION_RESOURCE_STATUS
from dra.api.reservations import well_known
from dra.engine.claims import patches
from dra.engine.claims.kept_nodes import annotation_changes
from dra.model.autoscalers import DO_NOT_DISRUPT, KEPT_NODE, SCALE_DOWN_DISABLED
from tests.deploy.admission_requests import EVICTED, PLUGIN, Json, annotated, asked, changed, patched, placeholder, pod
from tests.deploy.judging import judge, policy
from tests.dra.engine.translation.examples import gpus
from tests.violations import for_each_case

PODS = policy("kustomize/base/own-writes.yaml")

WORK = [
    pytest.param(
        "UPDATE", "", pod(), patched({"spec": {"schedulingGates": [{"name": "example.com/gate"}]}}), id="ungates"
    ),
    pytest.param("UPDATE", "", pod(), patched(patches.resync_patch("1")), id="touches"),
    pytest.param(
        "UPDATE",
        "",
        pod(),
        annotated(**{well_known.ANNOTATION_RESERVATION_ALLOCATED: "{}"}),
        id="lets-into-a-reservation",
    ),
    pytest.param(
        "UPDATE",
        "",
        annotated(**{well_known.ANNOTATION_RESERVATION_ALLOCATED: "{}"}),
        pod(),
        id="lets-out-of-a-reservation",
    ),
    pytest.param(
        "UPDATE", "", pod(), changed(pod(), metadata__labels={"app": "a", well_known.LABEL_INSIDE: "u"}), id="labels"
    ),
    pytest.param("UPDATE", "", pod(), annotated(**{ANNOTATION_DEVICE_ALLOCATED: "{}"}), id="reports-devices"),
    pytest.param("UPDATE", "", pod(), annotated(**{ANNOTATION_RESOURCE_STATUS: "{}"}), id="reports-cpus"),
    pytest.param("UPDATE", "status", pod(), changed(pod(), status__nominatedNodeName="n"), id="nominates"),
    pytest.param("UPDATE", "status", pod(), changed(pod(), status__resourceClaimStatuses=[{}]), id="names-claims"),
    pytest.param(
        "UPDATE",
        "status",
        pod(),
        changed(pod(), status__conditions=[*pod()["status"]["conditions"], EVICTED]),
        id="says-why",
    ),
    pytest.param("DELETE", "", changed(pod(), status__conditions=[EVICTED]), None, id="evicts"),
    pytest.param("DELETE", "", placeholder(), None, id="takes-a-placeholder-away"),
    pytest.param("CREATE", "", None, placeholder(), id="makes-a-placeholder"),
    pytest.param(
        "CREATE",
        "",
        None,
        placeholder(gpus("a", gpu="50"), gpus("b", gpu="50"), init=[gpus("i", gpu="75")]),
        id="makes-a-placeholder-for-several-gpus",
    ),
]

ATTACKS = [
    pytest.param(
        "UPDATE", "", pod(), changed(pod(), spec__containers__0__image="evil"), "gates", id="changes-an-image"
    ),
    pytest.param("UPDATE", "", pod(), changed(pod(), spec__tolerations=[{}]), "gates", id="adds-a-toleration"),
    pytest.param("UPDATE", "", pod(), changed(pod(), spec__nodeSelector={"a": "b"}), "gates", id="chooses-a-node"),
    pytest.param("UPDATE", "", pod(), changed(pod(), spec__fieldOfTomorrow=1), "gates", id="writes-a-new-field"),
    pytest.param("UPDATE", "", changed(pod(), spec__old=1), pod(), "gates", id="takes-a-field-away"),
    pytest.param(
        "UPDATE",
        "",
        pod(),
        changed(pod(), spec__schedulingGates=[*pod()["spec"]["schedulingGates"], {"name": "reserve.dra/reservation"}]),
        "gates",
        id="puts-a-gate-on",
    ),
    pytest.param("UPDATE", "", pod(), changed(pod(), metadata__ofTomorrow=1), "metadata", id="writes-new-metadata"),
    pytest.param(
        "UPDATE", "status", pod(), changed(pod(), status__ofTomorrow=1), "condition", id="writes-a-new-status"
    ),
    pytest.param(
        "UPDATE", "status", pod(), changed(pod(), status__startTime="now"), "condition", id="says-when-it-started"
    ),
    pytest.param(
        "UPDATE", "status", pod(), changed(pod(), spec__nodeSelector={}), "condition", id="the-spec-by-the-status"
    ),
    pytest.param(
        "UPDATE",
        "",
        pod(),
        changed(pod(), spec__schedulingGates=[{"name": "reserve.dra/claim"}]),
        "gates",
        id="takes-a-foreign-gate-off",
    ),
    pytest.param("UPDATE", "", pod(), changed(pod(), metadata__labels={"app": "b"}), "metadata", id="relabels"),
    pytest.param("UPDATE", "", pod(), changed(pod(), metadata__labels={}), "metadata", id="takes-labels-off"),
    pytest.param("UPDATE", "", pod(), annotated(**{"example.com/x": "y"}), "metadata", id="annotates-for-others"),
    pytest.param("UPDATE", "", pod(), changed(pod(), metadata__annotations={}), "metadata", id="takes-annotations-off"),
    pytest.param("UPDATE", "", pod(), changed(pod(), metadata__finalizers=["a/b"]), "metadata", id="holds-it-back"),
    pytest.param("UPDATE", "", pod(), changed(pod(), metadata__ownerReferences=[{}]), "metadata", id="gives-it-away"),
    pytest.param("UPDATE", "status", pod(), changed(pod(), status__phase="Failed"), "condition", id="ends-it-on-paper"),
    pytest.param(
        "UPDATE",
        "status",
        pod(),
        changed(pod(), status__podIPs=[{"ip": "1.2.3.4"}]),
        "condition",
        id="takes-its-traffic",
    ),
    pytest.param(
        "UPDATE",
        "status",
        pod(),
        changed(pod(), status__conditions=[{"type": "PodScheduled", "status": "True"}]),
        "condition",
        id="another-condition",
    ),
    pytest.param(
        "UPDATE",
        "status",
        pod(),
        changed(pod(), metadata__labels={"app": "b"}),
        "metadata",
        id="relabels-by-the-status",
    ),
    pytest.param("DELETE", "", pod(), None, "deletes", id="deletes-what-is-not-evicted"),
    pytest.param(
        "DELETE",
        "",
        changed(pod(), spec__resourceClaims=None, status__conditions=[EVICTED]),
        None,
        "deletes",
        id="deletes-a-pod-without-claims",
    ),
    pytest.param(
        "DELETE",
        "",
        changed(pod(), metadata__labels={"reserve.dra/placeholder": "true"}),
        None,
        "deletes",
        id="deletes-what-is-labelled-only",
    ),
]


@for_each_case(WORK)
def test_the_controller_does_its_work(operation, part, old, new):
    assert judge(PODS, asked(operation, part=part), obj=new, old=old) == (True, "")


@for_each_case(ATTACKS)
def test_a_token_of_the_controller_is_good_for_nothing_else(operation, part, old, new, text):
    passed, said = judge(PODS, asked(operation, part=part), obj=new, old=old)
    assert not passed
    assert said.startswith(f"the controller may not {operation} pod ml/p: ")
    assert text in said
    assert judge(PODS, asked(operation, part=part, user="kubelet"), obj=new, old=old)[0], "others are not limited"


OF_NODES = policy("kustomize/base/own-writes.yaml", "controller-nodes.reserve.dra")
BOTH = f"{SCALE_DOWN_DISABLED},{DO_NOT_DISRUPT}"
KEPT = {SCALE_DOWN_DISABLED: "true", DO_NOT_DISRUPT: "true", KEPT_NODE: BOTH}


def node(annotations: Json, **more: Any) -> Json:
    spec = {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}
    return changed(
        {"metadata": {"name": "n1", "labels": {"zone": "a"}, "annotations": annotations}, "spec": spec}, **more
    )


@for_each_case(
    [
        pytest.param(present, kept, id=f"{'kept' if kept else 'left'}-{name}")
        for kept in (True, False)
        for name, present in {
            "as-it-was": {"other": "x"},
            "as-the-controller-left-it": {"other": "x", **KEPT},
            "with-an-annotation-of-a-person": {SCALE_DOWN_DISABLED: "true"},
            "with-a-changed-value": {**KEPT, DO_NOT_DISRUPT: "false"},
            "with-one-removed": {SCALE_DOWN_DISABLED: "true", KEPT_NODE: BOTH},
            "with-a-wrong-marker": {KEPT_NODE: "nonsense"},
        }.items()
    ]
)
def test_the_controller_annotates_nodes(before, kept):
    changes = annotation_changes(before, kept=kept)
    after = {key: value for key, value in {**before, **changes}.items() if value is not None}
    assert judge(OF_NODES, asked("UPDATE"), obj=node(after), old=node(before)) == (True, "")


@for_each_case(
    [
        pytest.param({}, node({}, spec__unschedulable=True), "nothing else", id="cordons"),
        pytest.param({}, node({}, spec__taints=[]), "nothing else", id="takes-taints-off"),
        pytest.param({}, node({}, metadata__labels={"zone": "b"}), "nothing else", id="relabels"),
        pytest.param({}, node({}, metadata__finalizers=["a/b"]), "nothing else", id="holds-it-back"),
        pytest.param({}, node({}, metadata__ofTomorrow=1), "nothing else", id="writes-new-metadata"),
        pytest.param({}, node({"example.com/x": "y"}), "nothing else", id="annotates-for-others"),
        pytest.param({"example.com/x": "y"}, node({}), "nothing else", id="takes-annotations-off"),
        pytest.param({}, node({SCALE_DOWN_DISABLED: "false"}), "that are missing", id="another-value"),
        pytest.param({DO_NOT_DISRUPT: "true"}, node({}), "set itself", id="removes-that-of-a-person"),
        pytest.param({DO_NOT_DISRUPT: "false"}, node({DO_NOT_DISRUPT: "true"}), "missing", id="changes-a-value"),
        pytest.param(
            {DO_NOT_DISRUPT: "true"},
            node({DO_NOT_DISRUPT: "true", KEPT_NODE: DO_NOT_DISRUPT}),
            "set itself",
            id="marks-that-of-a-person",
        ),
        pytest.param({}, node({KEPT_NODE: DO_NOT_DISRUPT}), "set itself", id="marks-what-a-person-may-set-later"),
    ]
)
def test_a_token_of_the_controller_does_nothing_else_to_nodes(before, after, text):
    passed, said = judge(OF_NODES, asked("UPDATE"), obj=after, old=node(before))
    assert not passed
    assert said.startswith("the controller may not change node p: ")
    assert text in said
    assert judge(OF_NODES, asked("UPDATE", user="kubelet"), obj=after, old=node(before))[0], "others are not limited"


def offering(capacity: Json | None = None, allocatable: Json | None = None, **more: Any) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi"}
    status = {
        "capacity": amounts | (capacity or {}),
        "allocatable": amounts | ((capacity if allocatable is None else allocatable) or {}),
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return changed(node({"other": "x"}, status=status), **more)


BATCH = {BATCH_CPU: "1k", BATCH_MEMORY: "1Gi"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(offering(), offering(BATCH), id="offers"),
        pytest.param(offering(BATCH), offering(BATCH | {BATCH_CPU: "0"}), id="offers-less"),
        pytest.param(offering(BATCH), offering(), id="takes-the-offer-away"),
        pytest.param(offering(BATCH, {}), offering(BATCH), id="repairs-what-a-kubelet-left"),
    ],
)
def test_the_controller_offers_batch_resources(before, after):
    assert judge(OF_NODES, asked("UPDATE", part="status"), obj=after, old=before) == (True, "")


@for_each_case(
    [
        pytest.param(offering(BATCH | {"cpu": "400"}), "nothing else", id="more-cpus"),
        pytest.param(offering(BATCH | {"nvidia.com/gpu": "8"}), "nothing else", id="gpus-that-are-not-there"),
        pytest.param(offering(BATCH, BATCH | {"memory": "0"}), "nothing else", id="no-memory"),
        pytest.param(offering(BATCH, {BATCH_CPU: "1k"}), "equal in capacity", id="allocatable-without-memory"),
        pytest.param(offering(BATCH, BATCH | {BATCH_CPU: "9k"}), "equal in capacity", id="more-allocatable"),
        pytest.param(offering(BATCH, status__conditions=[]), "nothing else", id="conditions"),
        pytest.param(offering(BATCH, status__ofTomorrow=1), "nothing else", id="a-new-field"),
        pytest.param(offering(BATCH, spec__unschedulable=True), "nothing else", id="cordons-by-the-status"),
        pytest.param(offering(BATCH, metadata__labels={"zone": "b"}), "nothing else", id="relabels-by-the-status"),
        pytest.param(offering(BATCH, metadata__annotations={}), "nothing else", id="annotates-by-the-status"),
    ]
)
def test_a_token_of_the_controller_reports_nothing_else_of_nodes(after, text):
    passed, said = judge(OF_NODES, asked("UPDATE", part="status"), obj=after, old=offering())
    assert not passed
    assert text in said


OF_METRICS = policy("colocation/own-writes.yaml")
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}


def node_metric(**more: Any) -> Json:
    made = {
        "metadata": {"name": "n1", "ownerReferences": [OWNER]},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
    }
    return changed(made, **more)


@pytest.mark.parametrize(
    ("operation", "before", "after"),
    [
        pytest.param("CREATE", None, node_metric(), id="creates"),
        pytest.param(
            "UPDATE", node_metric(), node_metric(spec__metricCollectPolicy={"reportIntervalSeconds": 9}), id="asks"
        ),
        pytest.param("UPDATE", node_metric(metadata__ownerReferences=None), node_metric(), id="gives-it-an-owner"),
    ],
)
def test_the_controller_keeps_node_metrics(operation, before, after):
    assert judge(OF_METRICS, asked(operation), obj=after, old=before) == (True, "")


@for_each_case(
    [
        pytest.param("UPDATE", "status", node_metric(), node_metric(status={"a": 1}), "nodes write", id="reports"),
        pytest.param("DELETE", "", node_metric(), None, "nodes write", id="deletes"),
        pytest.param("CREATE", "", None, node_metric(spec__other=1), "metricCollectPolicy", id="another-field"),
        pytest.param("CREATE", "", None, node_metric(metadata__finalizers=["a/b"]), "the owner", id="holds-it-back"),
        pytest.param("CREATE", "", None, node_metric(metadata__ownerReferences=[]), "of its name", id="owns-it-not"),
        pytest.param(
            "CREATE",
            "",
            None,
            node_metric(metadata__ownerReferences=[OWNER | {"name": "n2"}]),
            "of its name",
            id="of-another-node",
        ),
        pytest.param(
            "UPDATE", "", node_metric(), node_metric(metadata__ownerReferences=[]), "of its name", id="disowns"
        ),
        pytest.param("UPDATE", "", node_metric(), node_metric(metadata__labels={"a": "b"}), "the owner", id="labels"),
    ]
)
def test_a_token_of_the_controller_does_nothing_else_to_node_metrics(operation, part, before, after, text):
    passed, said = judge(OF_METRICS, asked(operation, part=part), obj=after, old=before)
    assert not passed
    assert said.startswith(f"the controller may not {operation} NodeMetric p: ")
    assert text in said
    assert judge(OF_METRICS, asked(operation, part=part, user="admin"), obj=after, old=before)[0]


@pytest.mark.parametrize(("name", "passes"), [("dra-reserve-controller", True), ("dra-reserve-descheduler", False)])
def test_a_token_of_the_controller_makes_its_own_lease(name, passes):
    spec = policy("kustomize/base/own-writes.yaml", "controller-leases.reserve.dra")
    assert judge(spec, asked("CREATE"), obj={"metadata": {"name": name}})[0] is passes


def event(kind="Node", name="n1", by="reserve.dra/kubelet-plugin"):
    return {"regarding": {"kind": kind, "name": name}, "reportingController": by}


@pytest.mark.parametrize(
    ("group", "obj", "passes"),
    [
        pytest.param("events.k8s.io", event(), True, id="its-node"),
        pytest.param("events.k8s.io", event(name="n2"), False, id="another-node"),
        pytest.param("events.k8s.io", event(kind="Pod"), False, id="a-pod"),
        pytest.param("events.k8s.io", event(by="kubelet"), False, id="as-somebody-else"),
        pytest.param(
            "events.k8s.io", event() | {"related": {"kind": "Pod", "name": "p"}}, False, id="of-a-related-object"
        ),
        pytest.param("", {"involvedObject": {"kind": "Node", "name": "n1"}}, False, id="in-the-old-form"),
    ],
)
def test_a_token_of_a_plugin_tells_of_its_own_node(group, obj, passes):
    extra = {"authentication.kubernetes.io/node-name": ["n1"]}
    request = asked("CREATE", userInfo={"username": PLUGIN, "extra": extra}, resource={"group": group})
    assert judge(policy("kubelet-plugin/own-events.yaml"), request, obj=obj)[0] is passes
