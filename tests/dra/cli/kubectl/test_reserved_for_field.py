"""KEP-style manifests in the form that a stock server takes."""

import pytest

from dra.cli.kubectl.reserved_for_field import MalformedReservedForError, has_reserved_for, to_annotations

JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train"}


def claim(reference, **metadata):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"} | metadata,
        "spec": {"devices": {}, "reservedFor": reference},
    }


def test_a_claim_gets_annotations_and_loses_the_field():
    made = to_annotations(claim(JOB | {"uid": "u"}, annotations={"mine": "x"}))
    assert made["spec"] == {"devices": {}}
    assert made["metadata"]["annotations"] == {
        "mine": "x",
        "reserve.dra/reserved-for": "jobs.batch/train",
        "reserve.dra/reserved-for-uid": "u",
    }


def test_a_template_gets_them_where_its_claims_have_them():
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {"spec": {"devices": {}, "reservedFor": JOB}},
    }
    made = to_annotations(template)
    assert made["metadata"] == {"name": "t"}
    assert made["spec"]["metadata"]["annotations"] == {"reserve.dra/reserved-for": "jobs.batch/train"}
    assert made["spec"]["spec"] == {"devices": {}}


def test_what_is_handed_over_stays_as_it_is():
    given = claim(JOB)
    to_annotations(given)
    assert given == claim(JOB)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {"reservedFor": JOB}}, id="another-kind"),
        pytest.param(claim(None), id="nothing-said"),
        pytest.param({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}, id="no-spec"),
    ],
)
def test_everything_else_is_not_touched(manifest):
    assert not has_reserved_for(manifest)
    assert to_annotations(manifest) == manifest


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        pytest.param("jobs/train", "is one reference", id="text"),
        pytest.param([JOB], "is one reference", id="list"),
        pytest.param({"kind": "Job", "name": "train"}, "the field is named resource", id="kind"),
        pytest.param({"resource": "jobs"}, "resource and name are required", id="no-name"),
        pytest.param(JOB | {"namespace": "x"}, "namespace: there is no such field", id="namespace"),
        pytest.param(JOB | {"name": "a/b"}, "spec.reservedFor", id="no-name-of-an-object"),
    ],
)
def test_a_reference_that_nobody_can_follow_is_refused(reference, told):
    with pytest.raises(MalformedReservedForError, match=told):
        to_annotations(claim(reference))


def test_field_and_annotation_that_disagree_are_refused():
    with pytest.raises(MalformedReservedForError, match=r"annotation reserve\.dra/reserved-for says jobs\.batch/other"):
        to_annotations(claim(JOB, annotations={"reserve.dra/reserved-for": "jobs.batch/other"}))
