"""What the accounts of dra-reserve may write, by the policies that limit them: what they do, and nothing else.

A stolen token of the controller changed images in kube-system and made privileged pods. That the accounts can do their
work under these policies is shown by all scenarios; a real API server judges the same rows in
tests/scenarios/test_own_writes.py.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from dra.api.koordinator.well_known import ANNOTATION_DEVICE_ALLOCATED, ANNOTATION_RESOURCE_STATUS
from dra.api.migration.well_known import ANNOTATION_PASSED_ARBITRATION, ANNOTATION_SOFT_EVICTION
from dra.api.reservations import well_known
from dra.api.reservations.model import Reservation
from dra.engine.claims import patches
from dra.engine.claims.kept_nodes import annotation_changes
from dra.engine.reservations import placeholders
from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.model.autoscalers import DO_NOT_DISRUPT, KEPT_NODE, SCALE_DOWN_DISABLED
from tests.deploy.judging import judge, policy
from tests.dra.api.migration import manifests as migrations
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.translation.examples import gpus
from tests.dra.engine.translation.strategies import requests

Json = dict[str, Any]

CONTROLLER = "system:serviceaccount:dra-reserve:dra-reserve-controller"
EXTENDER = "system:serviceaccount:dra-reserve:dra-reserve-extender"
PLUGIN = "system:serviceaccount:dra-reserve-nodes:dra-reserve-kubelet-plugin"
PODS = policy("kustomize/base/own-writes.yaml")
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDeviceTaintManager"}


def pod(**spec: Any) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "ml", "labels": {"app": "a"}, "annotations": {"other": "x"}},
        "spec": {
            "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}],
            "schedulingGates": [{"name": "reserve.dra/claim"}, {"name": "example.com/gate"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
            **spec,
        },
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
    }


def placeholder(*containers: Json, init: list[Json] | None = None) -> Json:
    made = manifest()
    if containers:
        made["spec"]["template"]["spec"] |= {"containers": [*containers], "initContainers": init or []}
    made["metadata"]["uid"] = "0c3f1e9a-5f6b-4f0e-9f3c-1d2a3b4c5d6e"
    return copy.deepcopy(placeholders.placeholder_manifest(Reservation.model_validate(made)))


def changed(obj: Json, **paths: Any) -> Json:
    """A copy with other values; paths with ``__`` for dots, a number for an index, and None for nothing there."""
    made = copy.deepcopy(obj)
    for path, value in paths.items():
        *parents, last = path.split("__")
        at: Any = made
        for each in parents:
            at = at[int(each)] if isinstance(at, list) else at.setdefault(each, {})
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return made


def asked(operation: str, *, part: str = "", user: str = CONTROLLER, **more: Any) -> Json:
    found = {"operation": operation, "namespace": "ml", "name": "p", "userInfo": {"username": user}, **more}
    return {**found, "subResource": part} if part else found


def patched(patch: Json) -> Json:
    """The pod after a merge patch of ours."""
    made = pod()
    for section, fields in patch.items():
        for name, value in fields.items():
            if value is None:
                made[section].pop(name)
            elif isinstance(value, dict):
                made[section].setdefault(name, {}).update(value)
            else:
                made[section][name] = value
    return made


def annotated(**values: str) -> Json:
    return {**pod(), "metadata": {**pod()["metadata"], "annotations": {"other": "x", **values}}}


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
        placeholder(gpus("a", gpu="50"), gpus("b", gpu="50"), init=[gpus("i", gpu="25")]),
        id="makes-a-placeholder-for-several-gpus",
    ),
]

PRIVILEGED = {"privileged": True, "allowPrivilegeEscalation": False}

ATTACKS = [
    pytest.param(
        "UPDATE", "", pod(), changed(pod(), spec__containers__0__image="evil"), "gates", id="changes-an-image"
    ),
    pytest.param("UPDATE", "", pod(), changed(pod(), spec__tolerations=[{}]), "gates", id="adds-a-toleration"),
    pytest.param("UPDATE", "", pod(), changed(pod(), spec__nodeSelector={"a": "b"}), "gates", id="chooses-a-node"),
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
    pytest.param("CREATE", "", None, pod(), "placeholders", id="makes-a-pod"),
    pytest.param(
        "CREATE", "", None, changed(placeholder(), spec__hostNetwork=True), "placeholders", id="on-the-hosts-network"
    ),
    pytest.param(
        "CREATE", "", None, changed(placeholder(), spec__hostPID=True), "placeholders", id="among-the-hosts-processes"
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__volumes=[{"name": "a", "hostPath": {"path": "/"}}]),
        "placeholders",
        id="with-the-hosts-files",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__containers__0__securityContext=PRIVILEGED),
        "placeholders",
        id="privileged",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__containers__0__image="evil"),
        "placeholders",
        id="another-image",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__containers__0__image="evil/notpause:1"),
        "placeholders",
        id="almost-the-image",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__containers__0__command=["sh"]),
        "placeholders",
        id="another-command",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__initContainers=[{"name": "a"}]),
        "placeholders",
        id="with-an-init-container",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__serviceAccountName="admin"),
        "placeholders",
        id="as-another-account",
    ),
    pytest.param(
        "CREATE",
        "",
        None,
        changed(placeholder(), spec__automountServiceAccountToken=True),
        "placeholders",
        id="with-a-token",
    ),
    pytest.param(
        "CREATE", "", None, changed(placeholder(), metadata__ownerReferences=[]), "placeholders", id="of-no-reservation"
    ),
]


@pytest.mark.parametrize(("operation", "part", "old", "new"), WORK)
def test_the_controller_does_its_work(operation, part, old, new):
    assert judge(PODS, asked(operation, part=part), obj=new, old=old) == (True, "")


@pytest.mark.parametrize(("operation", "part", "old", "new", "text"), ATTACKS)
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


@pytest.mark.parametrize(
    ("before", "kept"),
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
    ],
)
def test_the_controller_annotates_nodes(before, kept):
    changes = annotation_changes(before, kept=kept)
    after = {key: value for key, value in {**before, **changes}.items() if value is not None}
    assert judge(OF_NODES, asked("UPDATE"), obj=node(after), old=node(before)) == (True, "")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        pytest.param({}, node({}, spec__unschedulable=True), "nothing else", id="cordons"),
        pytest.param({}, node({}, spec__taints=[]), "nothing else", id="takes-taints-off"),
        pytest.param({}, node({}, metadata__labels={"zone": "b"}), "nothing else", id="relabels"),
        pytest.param({}, node({}, metadata__finalizers=["a/b"]), "nothing else", id="holds-it-back"),
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
    ],
)
def test_a_token_of_the_controller_does_nothing_else_to_nodes(before, after, text):
    passed, said = judge(OF_NODES, asked("UPDATE"), obj=after, old=node(before))
    assert not passed
    assert said.startswith("the controller may not change node p: ")
    assert text in said
    assert judge(OF_NODES, asked("UPDATE", user="kubelet"), obj=after, old=node(before))[0], "others are not limited"


def test_a_token_of_the_controller_reports_no_status_of_nodes():
    assert not judge(OF_NODES, asked("UPDATE", part="status"), obj=node({}), old=node({}))[0]


OF_TEMPLATES = policy("koordinator/own-writes.yaml", "controller-templates.reserve.dra")
HALF = "koord-gpu-c50-r50-s1"
UNUSED = {"reserve.dra/unused-since": "2026-11-20T12:00:00Z"}
GIBI = 2**30


def template(name: str = HALF, **paths: Any) -> Json:
    request = template_names.parse(name)
    assert request is not None
    made = template_manifest(name, "ml", request, card_sizes=(16 * GIBI, 80 * GIBI))
    assert made is not None
    return changed(dict(made), **paths)


@given(request=requests())
def test_the_controller_makes_the_template_of_each_request(request):
    name = template_names.name_of(request)
    made = template(name)
    assert judge(OF_TEMPLATES, asked("CREATE"), obj=made) == (True, "")
    assert judge(OF_TEMPLATES, asked("DELETE"), old=made) == (True, "")


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, UNUSED), (UNUSED, {}), ({"other": "x", **UNUSED}, {"other": "x"})],
    ids=["marks", "unmarks", "leaves-others"],
)
def test_the_controller_marks_unused_templates(before, after):
    old, new = (template(metadata__annotations=each) for each in (before, after))
    assert judge(OF_TEMPLATES, asked("UPDATE"), obj=new, old=old) == (True, "")


REQUESTS = "spec__spec__devices__requests"
ADMIN = {"deviceClassName": "gpu.reserve.dra", "adminAccess": True}


@pytest.mark.parametrize(
    ("operation", "old", "new", "text"),
    [
        pytest.param("CREATE", None, template(metadata__name="mine"), "named after", id="another-name"),
        pytest.param("CREATE", None, template(metadata__name=f"{HALF}-x"), "named after", id="a-longer-name"),
        pytest.param("CREATE", None, template(metadata__labels={}), "label", id="without-the-label"),
        pytest.param("CREATE", None, template(metadata__finalizers=["a/b"]), "drivers", id="holds-it-back"),
        pytest.param(
            "CREATE",
            None,
            template(**{f"{REQUESTS}__0__firstAvailable__0__deviceClassName": "other"}),
            "drivers",
            id="another-class",
        ),
        pytest.param(
            "CREATE",
            None,
            template(**{REQUESTS: [{"name": "gpu", "exactly": {"deviceClassName": "other"}}]}),
            "drivers",
            id="exactly-another-class",
        ),
        pytest.param(
            "CREATE",
            None,
            template(**{REQUESTS: [{"name": "gpu", "exactly": ADMIN}]}),
            "admin access",
            id="admin-access",
        ),
        pytest.param("DELETE", template(metadata__labels={}), None, "label", id="deletes-that-of-a-person"),
        pytest.param("DELETE", template(metadata__name="mine"), None, "named after", id="deletes-another-name"),
        pytest.param("UPDATE", template(metadata__labels={}), template(), "label", id="makes-that-of-a-person-its-own"),
        pytest.param("UPDATE", template(), template(metadata__labels={}), "unused-since", id="relabels"),
        pytest.param(
            "UPDATE", template(), template(metadata__annotations={"a": "b"}), "unused-since", id="annotates-for-others"
        ),
        pytest.param(
            "UPDATE",
            template(metadata__annotations={"a": "b"}),
            template(metadata__annotations=UNUSED),
            "unused-since",
            id="takes-annotations-off",
        ),
        pytest.param(
            "UPDATE", template(), template(metadata__ownerReferences=[{}]), "unused-since", id="gives-it-away"
        ),
    ],
)
def test_a_token_of_the_controller_writes_no_other_templates(operation, old, new, text):
    passed, said = judge(OF_TEMPLATES, asked(operation), obj=new, old=old)
    assert not passed
    assert said.startswith(f"the controller may not {operation} ResourceClaimTemplate ml/p: ")
    assert text in said
    assert judge(OF_TEMPLATES, asked(operation, user="kubelet"), obj=new, old=old)[0], "others are not limited"


OF_THE_EXTENDER = policy("reservations/own-writes.yaml", "extender-writes.reserve.dra")


@pytest.mark.parametrize(
    ("new", "passes"),
    [
        pytest.param(annotated(**{well_known.ANNOTATION_LOOK_AGAIN: "1"}), True, id="touches-a-pod"),
        pytest.param(annotated(**{"example.com/x": "1"}), False, id="annotates-for-others"),
        pytest.param(changed(pod(), spec__containers__0__image="evil"), False, id="changes-an-image"),
        pytest.param(changed(pod(), spec__schedulingGates=None), False, id="takes-gates-off"),
        pytest.param(changed(pod(), metadata__labels={}), False, id="relabels"),
        pytest.param(changed(pod(), metadata__finalizers=["a/b"]), False, id="holds-it-back"),
    ],
)
def test_a_token_of_the_extender_annotates(new, passes):
    request = {**asked("UPDATE", user=EXTENDER), "resource": {"resource": "pods"}}
    passed, said = judge(OF_THE_EXTENDER, request, obj=new, old=pod())
    assert passed is passes
    assert ("may not change pods p" in said) is not passes


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Available", "Pending", ""])
def test_a_token_of_the_controller_deletes_reservations_that_have_ended(phase):
    spec = policy("reservations/own-writes.yaml", "controller-reservations.reserve.dra")
    old = {"status": {"phase": phase} if phase else {}}
    assert judge(spec, asked("DELETE"), old=old)[0] is (phase in {"Succeeded", "Failed"})


@pytest.mark.parametrize(("name", "passes"), [("dra-reserve-extender", True), ("another", False)])
def test_a_token_of_the_extender_makes_its_own_objects(name, passes):
    spec = policy("reservations/own-writes.yaml", "extender-objects.reserve.dra")
    request = {**asked("CREATE", user=EXTENDER), "resource": {"resource": "leases"}}
    assert judge(spec, request, obj={"metadata": {"name": name}})[0] is passes


DESCHEDULER = "system:serviceaccount:dra-reserve:dra-reserve-descheduler"
JOB_UID = "7b2a8a1c-2c6e-4a5b-8f65-0b6b3d1f4a10"


def job(**paths):
    return changed(migration(), **paths)


def migration():
    made = migrations.manifest(mode="", ttl=None)
    made["metadata"] |= {"uid": JOB_UID, "labels": {"app": "a"}, "annotations": {"other": "x"}}
    return made


BEGUN = {"spec__podRef__uid": "u", "spec__ttl": "5m0s", "spec__mode": "ReservationFirst"}
REFERENCE = {"name": JOB_UID, "uid": "v"}
OTHER = {"name": "other", "uid": "w"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            job(), job(metadata__annotations={"other": "x", ANNOTATION_PASSED_ARBITRATION: "true"}), id="passes"
        ),
        pytest.param(job(), job(**BEGUN), id="begins"),
        pytest.param(
            job(**BEGUN), job(**BEGUN, spec__reservationOptions__reservationRef=REFERENCE), id="names-its-reservation"
        ),
        pytest.param(
            job(spec__reservationOptions={"template": {}}),
            job(spec__reservationOptions={"template": {}, "reservationRef": REFERENCE}),
            id="names-the-reservation-of-a-template",
        ),
        pytest.param(
            job(**BEGUN, spec__reservationOptions__reservationRef=REFERENCE),
            job(
                **BEGUN,
                spec__reservationOptions__reservationRef={"name": "0f6d1c1e-5a53-4f5e-9a57-2f1f3c8a7d10", "uid": "w"},
            ),
            id="takes-over-the-reservation-of-another-job",
        ),
        pytest.param(job(status={"phase": "Succeeded"}), None, id="deletes-what-has-succeeded"),
        pytest.param(job(status={"phase": "Failed"}), None, id="deletes-what-has-failed"),
    ],
)
def test_the_descheduler_does_its_work(old, new):
    request = asked("DELETE" if new is None else "UPDATE", user=DESCHEDULER)
    assert judge(policy("descheduler/own-writes.yaml", "descheduler-jobs.reserve.dra"), request, obj=new, old=old) == (
        True,
        "",
    )


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        pytest.param(job(), job(spec__paused=True), "completes", id="pauses"),
        pytest.param(job(**BEGUN), job(**BEGUN | {"spec__ttl": "1h"}), "completes", id="prolongs"),
        pytest.param(job(**BEGUN), job(**BEGUN | {"spec__mode": "EvictDirectly"}), "completes", id="changes-the-mode"),
        pytest.param(job(**BEGUN), job(**BEGUN | {"spec__podRef__uid": "v"}), "completes", id="changes-the-pod"),
        pytest.param(job(), job(spec__podRef__name="other"), "completes", id="names-another-pod"),
        pytest.param(job(), job(spec__podRef__namespace="other"), "completes", id="in-another-namespace"),
        pytest.param(job(), job(spec__deleteOptions={"gracePeriodSeconds": 0}), "completes", id="hurries"),
        pytest.param(job(), job(spec__reservationOptions={"template": {}}), "completes", id="adds-a-template"),
        pytest.param(
            job(spec__reservationOptions={"reservationRef": OTHER}),
            job(spec__reservationOptions={"reservationRef": REFERENCE}),
            "completes",
            id="leaves-the-reservation-of-a-user",
        ),
        pytest.param(job(), job(metadata__labels={"koordinator.sh/evict-policy": "Delete"}), "metadata", id="labels"),
        pytest.param(job(), job(metadata__annotations={}), "metadata", id="takes-annotations-off"),
        pytest.param(job(), job(metadata__finalizers=["a/b"]), "metadata", id="holds-it-back"),
        pytest.param(job(), job(metadata__ownerReferences=[{}]), "metadata", id="gives-it-away"),
        pytest.param(job(status={"phase": "Running"}), None, "has not ended", id="deletes-what-runs"),
        pytest.param(job(), None, "has not ended", id="deletes-what-has-not-begun"),
    ],
)
def test_a_token_of_the_descheduler_does_nothing_else_to_jobs(old, new, text):
    spec = policy("descheduler/own-writes.yaml", "descheduler-jobs.reserve.dra")
    operation = "DELETE" if new is None else "UPDATE"
    passed, said = judge(spec, asked(operation, user=DESCHEDULER), obj=new, old=old)
    assert not passed
    assert said.startswith(f"the descheduler may not {operation} podmigrationjob p: ")
    assert text in said
    assert judge(spec, asked(operation, user="jane"), obj=new, old=old)[0], "others are not limited"


def of_a_job(**changes):
    reference = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", "name": "j"}
    return {
        "metadata": {"name": JOB_UID, "ownerReferences": [{**reference, "uid": JOB_UID, "controller": True, **changes}]}
    }


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
@pytest.mark.parametrize(
    ("reservation", "passes"),
    [
        pytest.param(of_a_job(), True, id="of-a-job"),
        pytest.param(of_a_job(uid="u"), False, id="of-another-job"),
        pytest.param(of_a_job(kind="Job"), False, id="of-another-kind"),
        pytest.param(of_a_job(apiVersion="batch/v1"), False, id="of-another-group"),
        pytest.param(of_a_job(controller=False), False, id="not-controlled"),
        pytest.param({"metadata": {"name": "demo"}}, False, id="of-a-person"),
    ],
)
def test_a_token_of_the_descheduler_is_for_reservations_of_jobs(operation, reservation, passes):
    spec = policy("descheduler/own-writes.yaml", "descheduler-reservations.reserve.dra")
    there = {"old": reservation} if operation == "DELETE" else {"obj": reservation}
    assert judge(spec, asked(operation, user=DESCHEDULER), **there)[0] is passes


@pytest.mark.parametrize(
    ("new", "passes"),
    [
        pytest.param(annotated(**{ANNOTATION_SOFT_EVICTION: "{}"}), True, id="asks-softly"),
        pytest.param(annotated(**{"example.com/x": "1"}), False, id="annotates-for-others"),
        pytest.param(changed(pod(), spec__containers__0__image="evil"), False, id="changes-an-image"),
        pytest.param(changed(pod(), metadata__labels={}), False, id="relabels"),
        pytest.param(changed(pod(), metadata__finalizers=["a/b"]), False, id="holds-it-back"),
        pytest.param(changed(pod(), metadata__ownerReferences=[{}]), False, id="gives-it-away"),
    ],
)
def test_a_token_of_the_descheduler_annotates_pods(new, passes):
    spec = policy("descheduler/own-writes.yaml", "descheduler-pods.reserve.dra")
    passed, said = judge(spec, asked("UPDATE", user=DESCHEDULER), obj=new, old=pod())
    assert passed is passes
    assert ("may not change pod ml/p" in said) is not passes


@pytest.mark.parametrize(("name", "passes"), [("dra-reserve-descheduler", True), ("dra-reserve-controller", False)])
def test_a_token_of_the_descheduler_makes_its_own_lease(name, passes):
    spec = policy("descheduler/own-writes.yaml", "descheduler-leases.reserve.dra")
    assert judge(spec, asked("CREATE", user=DESCHEDULER), obj={"metadata": {"name": name}})[0] is passes


def event(kind="Node", name="n1", by="reserve.dra/kubelet-plugin"):
    return {"regarding": {"kind": kind, "name": name}, "reportingController": by}


@pytest.mark.parametrize(
    ("group", "obj", "passes"),
    [
        pytest.param("events.k8s.io", event(), True, id="its-node"),
        pytest.param("events.k8s.io", event(name="n2"), False, id="another-node"),
        pytest.param("events.k8s.io", event(kind="Pod"), False, id="a-pod"),
        pytest.param("events.k8s.io", event(by="kubelet"), False, id="as-somebody-else"),
        pytest.param("", {"involvedObject": {"kind": "Node", "name": "n1"}}, False, id="in-the-old-form"),
    ],
)
def test_a_token_of_a_plugin_tells_of_its_own_node(group, obj, passes):
    extra = {"authentication.kubernetes.io/node-name": ["n1"]}
    request = asked("CREATE", userInfo={"username": PLUGIN, "extra": extra}, resource={"group": group})
    assert judge(policy("kubelet-plugin/own-events.yaml"), request, obj=obj)[0] is passes


@pytest.mark.parametrize(
    ("before", "after", "namespace", "passes"),
    [
        pytest.param(None, "true", {}, False, id="a-tenants-pod"),
        pytest.param(None, "true", {"reserve.dra/disable-preemptible": "allowed"}, True, id="where-it-is-allowed"),
        pytest.param("", "true", {}, False, id="labelled-later"),
        pytest.param("true", "true", {}, True, id="that-is-there-already"),
        pytest.param(None, "false", {}, True, id="that-may-be-preempted"),
        pytest.param(None, "", {}, True, id="without-the-label"),
    ],
)
def test_a_namespace_says_whether_its_pods_may_refuse_to_be_preempted(before, after, namespace, passes):
    """The label shielded a tenant's pods on every node."""

    def labelled(value):
        return {"metadata": {"name": "p", "labels": {well_known.LABEL_DISABLE_PREEMPTIBLE: value} if value else {}}}

    spec = policy("reservations/admission.yaml", "preemption.reserve.dra")
    old = None if before is None else labelled(before)
    passed, said = judge(
        spec, asked("CREATE"), obj=labelled(after), old=old, namespace={"metadata": {"labels": namespace}}
    )
    assert passed is passes
    assert passes or "kubectl label namespace ml reserve.dra/disable-preemptible=allowed" in said
