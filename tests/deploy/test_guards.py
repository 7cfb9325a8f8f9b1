"""What can be said of deploy/policies/guards.yaml without a cluster; the rest is tests/scenarios/test_guards.py."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dra.cel import expressions
from dra.cel.evaluator import cel
from dra.model.references import ConsumerReference, MalformedReferenceError
from dra.model.workload_reservations import RESERVED_FOR

GUARDS = Path(__file__).parents[2] / "deploy" / "policies" / "guards.yaml"
DOCUMENTS = list(yaml.safe_load_all(GUARDS.read_text()))
POLICIES = {obj["metadata"]["name"]: obj["spec"] for obj in DOCUMENTS if obj["kind"] == "ValidatingAdmissionPolicy"}
BINDINGS = {obj["spec"]["policyName"]: obj["spec"] for obj in DOCUMENTS if obj["kind"].endswith("Binding")}

REFERENCES = POLICIES["references.reserve.dra"]
WITHIN = expressions.environment(
    dict.fromkeys(("request", "object", "variables"), cel().Type.DYN),
)
COMPILED = {
    text: expressions.Expression(text.replace("strings.quote", "string"), WITHIN)
    for text in [
        *(each["expression"] for part in ("variables", "validations") for each in REFERENCES[part]),
        *(each["messageExpression"] for each in REFERENCES["validations"]),
    ]
}


def judged(obj, *, resource="resourceclaims"):
    """What the policy about references says to a creation of a tenant; nothing if it lets it pass."""
    data = {"object": obj, "request": {"resource": {"resource": resource}, "namespace": "ml"}, "variables": {}}
    for variable in REFERENCES["variables"]:
        if variable["name"] == "field":  # an optional value, which cannot be carried from here
            continue
        if variable["name"] == "reference":
            data["variables"]["reference"] = data["variables"]["notes"].get(RESERVED_FOR, "none/none")
            continue
        data["variables"][variable["name"]] = COMPILED[variable["expression"]].evaluate(data)
    for each in REFERENCES["validations"]:
        if not COMPILED[each["expression"]].evaluate(data):
            return COMPILED[each["messageExpression"]].evaluate(data)
    return None


def annotated(reference):
    return {"metadata": {"name": "train", "annotations": {RESERVED_FOR: reference}}}


PARTS = st.from_regex(r"[a-z0-9.-]{0,12}", fullmatch=True)
ALMOST = st.builds("{}{}{}/{}".format, PARTS, st.sampled_from(["", "."]), PARTS, PARTS)


@given(st.one_of(ALMOST, st.text(max_size=30), st.builds("{}/{}".format, PARTS, st.text(max_size=5))))
def test_what_the_controller_reads_is_let_pass_and_nothing_else(text):
    try:
        ConsumerReference.parse(text)
    except MalformedReferenceError:
        assert "RESOURCE[.GROUP]/NAME" in judged(annotated(text))
    else:
        assert judged(annotated(text)) is None


def test_a_template_is_judged_by_what_it_gives_its_claims():
    template = {"metadata": {"name": "t"}, "spec": {"metadata": {"annotations": {RESERVED_FOR: "nodes/n"}}}}
    said = judged(template, resource="resourceclaimtemplates")
    assert (
        said
        == "claim template ml/t: it is reserved for nodes/n, which is in no namespace; name an object in namespace ml"
    )


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("storageversionmigrations.storagemigration.k8s.io", id="served-by-default-from-1.37-on"),
        pytest.param("devicetaintrules.resource.k8s.io", id="stable-from-1.37-on"),
        pytest.param("resourcepoolstatusrequests.resource.k8s.io", id="alpha"),
        pytest.param("storageversions.internal.apiserver.k8s.io", id="alpha-and-of-the-api-server-itself"),
    ],
)
def test_kinds_without_a_namespace_that_later_versions_of_kubernetes_serve_are_refused(kind):
    assert "which is in no namespace" in (judged(annotated(f"{kind}/x")) or "")


def test_a_claim_without_a_name_yet_is_told_by_what_it_will_begin_with():
    claim = {"metadata": {"generateName": "train-", "annotations": {RESERVED_FOR: "nodes/n"}}}
    assert judged(claim).startswith("claim ml/train-: ")


def test_who_is_exempt_is_known_by_a_right_and_not_only_by_what_anybody_may_write():
    """An owner reference with `controller: true` was enough."""
    (condition,) = REFERENCES["matchConditions"]
    assert "subresource('status')" in condition["expression"]


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_is_in_force_and_fails_closed(name):
    assert BINDINGS[name]["validationActions"] == ["Deny"]
    assert POLICIES[name]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_names_an_account(name):
    text = yaml.safe_dump(POLICIES[name])
    assert not re.search(r"system:|serviceaccount|kube-scheduler|kube-controller-manager", text)


def test_the_policy_about_references_comes_last():
    """Who waits until it refuses something knows that the others are in force, too."""
    assert list(POLICIES)[-1] == "references.reserve.dra"
