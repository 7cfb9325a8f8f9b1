"""What the accounts of the extender and of the controller may write for Reservations, and who may refuse preemption."""

from __future__ import annotations

import pytest

from dra.api.reservations import well_known
from tests.deploy.admission_requests import EXTENDER, annotated, asked, changed, pod
from tests.deploy.judging import judge, policy

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
